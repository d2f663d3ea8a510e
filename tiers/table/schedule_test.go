package table

import (
	"strings"
	"testing"
	"time"
)

func TestParseAccessor(t *testing.T) {
	for text, want := range map[string]Schedule{
		"":                         DefaultSchedule(),
		"{}":                       DefaultSchedule(),
		"day: 1h":                  {Day: "1h", ShrinkEvery: 1, ServingEvery: 1, ServingBaseEvery: 7},
		"day: 500000\ncapacity: 9": {Day: "500000", ShrinkEvery: 1, ServingEvery: 1, ServingBaseEvery: 7},
		`{"day": "pass", "shrink_every": 0, "serving_every": 3, "serving_base_every": 1, "serving_quantize": "int8"}`: {Day: "pass", ServingEvery: 3, ServingBaseEvery: 1, ServingQuantize: "int8"},
	} {
		l, got, err := ParseAccessor([]byte(text))
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
			continue
		}
		if (l.Capacity == 9) != strings.Contains(text, "capacity") {
			t.Errorf("%q: capacity %d", text, l.Capacity)
		}
	}
	s := Schedule{Day: "90m"}
	if n, d := s.Length(); n != 0 || d != 90*time.Minute {
		t.Errorf("90m is %d examples, %v", n, d)
	}
	s.Day = "12"
	if n, d := s.Length(); n != 12 || d != 0 {
		t.Errorf("12 is %d examples, %v", n, d)
	}
}

// TestBadAccessor: one line, with the name, the value, and what to do.
func TestBadAccessor(t *testing.T) {
	for text, want := range map[string]string{
		"day: 1_000":                    "line 1: 1_000 is not a decimal number",
		"shrink_every: 010":             "line 1: 010 is not a decimal number",
		"delta_keep_days: 0x10":         "line 1: 0x10 is not a decimal number",
		"embed: {bound: 1_0.5}":         "line 1: 1_0.5 is not a decimal number",
		"day: soon":                     `day "soon", must be pass, a time above 0 such as 1h, or a number of examples above 0`,
		"day: 0":                        `day "0", must be`,
		"day: -1h":                      `day "-1h", must be`,
		"shrink_every: -1":              "shrink_every -1, must be 0 to 1048576 days (0 = never)",
		"serving_base_every: 0":         "serving_base_every 0, must be 1 to 1048576 saves",
		"serving_quantize: fp8":         `serving_quantize "fp8", must be fp16, int8`,
		"embedx_treshold: 3":            `no setting "embedx_treshold"`,
		"capacity: lots":                "capacity is a string, want a value of type uint64",
		"shrink_every: 1.5":             "shrink_every is a number 1.5",
		"show_click_decay_rate: 1.5":    "show_click_decay_rate 1.5, must be above 0 and at most 1",
		"delete_threshold: -1":          "delete_threshold -1, must be finite and not negative",
		"admit: maybe":                  `admit "maybe", must be all, count, score or probability`,
		"- 1":                           "no list of `name: value`",
		"a: b: c":                       "no list of `name: value`",
		"day: 1h\n---\nday: 2h":         "more than one document",
		"embed: {rule: adagard}":        `rule "adagard", must be`,
		"embed: {weight_bounds: [1]}":   "1 numbers, want 2",
		strings.Repeat("# long\n", 1e5): "settings of 700000 bytes, at most 65536",
	} {
		_, _, err := ParseAccessor([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: error %v, want one line that says %s", text, err, want)
		}
	}
}
