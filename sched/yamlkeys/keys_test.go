package yamlkeys

import (
	"errors"
	"testing"
)

type outer struct {
	Hosts []inner `yaml:"hosts"`
	Job   *inner  `yaml:"job,omitempty"`
}

type inner struct {
	Cores int      `yaml:"cores"`
	Share *float64 `yaml:"share"`
	Name  string   `yaml:"name"`
	On    bool     `yaml:"on"`
}

// What is wrong is told in the words of the file, wherever in it that is.
func TestWrong(t *testing.T) {
	for text, want := range map[string]string{
		"hosts: [{cores: 3}]":                         "",
		"hosts:\n- cores: 3\n- coers: 4":              `3: key "coers" is unknown, did you mean "cores"?; known are cores, share, name, on`,
		"job: {zzzzzzzz: 1}":                          `1: key "zzzzzzzz" is unknown; known are cores, share, name, on`,
		"base: &b {cores: 2}\nhosts: [{<<: *b}]":      `1: key "base" is unknown; known are hosts, job`,
		"hosts: [&b {cores: 2}, {<<: *b, name: two}]": "",
		"hosts: 3":                                  `line 1: there is "3" where a list should be`,
		"hosts: [3]":                                `line 1: there is "3" where a list of lines key: value should be`,
		"hosts:\n- {cores: many}":                   `line 2: there is "many" where a whole number should be`,
		"hosts:\n- {share: [1, 2]}":                 "line 2: there is a list where a number should be",
		"job: {name: {a: b}}":                       "line 1: there is a group of keys where one text should be",
		"job: {on: 7}\nhosts: [5, 6]":               `line 1: there is "7" where true or false should be`,
		"hosts: [1":                                 "not YAML: line 1: did not find expected ',' or ']'",
		"hosts:\n- {cores: 1_0}":                    `line 2: there is "1_0" where a whole number should be`,
		"hosts: [{cores: 010}]":                     `line 1: there is "010" where a whole number should be`,
		"hosts: [{cores: 0x10}]":                    `line 1: there is "0x10" where a whole number should be`,
		"hosts: [{cores: 1.7}]":                     `line 1: there is "1.7" where a whole number should be`,
		"job: {share: 010}":                         `line 1: there is "010" where a number should be`,
		"job: {share: 1_0.5}":                       `line 1: there is "1_0.5" where a number should be`,
		"job: {share: 1e-3, cores: 2e3, name: 1_0}": "",
		"job: {share: 7, cores: -3, name: 010}":     "",
		"# nothing":                                 "EOF",
		"job: {cores: 1, cores: 2}":                 `line 1: mapping key "cores" already defined at line 1`,
	} {
		got := ""
		var k *Key
		switch err := Decode([]byte(text), new(outer)); {
		case errors.As(err, &k):
			got = string(rune('0'+k.Line)) + ": " + k.Error()
		case err != nil:
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s\nwant %s", text, got, want)
		}
	}
}
