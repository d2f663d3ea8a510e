package yamlkeys

import (
	"errors"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// plain is the first thing that the decoder did not like, on one line and without the names
// of Go's types.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if all := (*yaml.TypeError)(nil); errors.As(err, &all) && len(all.Errors) > 0 {
		text = all.Errors[0]
	}
	text = strings.ReplaceAll(text, "\n", " ")
	m := regexp.MustCompile("^(line [0-9]+: )cannot unmarshal (!![a-z]+)(?: `(.*)`)? into (.*)$").FindStringSubmatch(text)
	if m == nil {
		return text
	}
	is := map[string]string{"!!map": "a group of keys", "!!seq": "a list", "!!null": "nothing"}[m[2]]
	if is == "" {
		is = `"` + m[3] + `"`
	}
	return m[1] + "there is " + is + " where " + wanted(m[4]) + " should be"
}

// wanted is what a value of a Go type is written as.
func wanted(goType string) string {
	goType = strings.TrimLeft(goType, "*")
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"):
		return "a whole number"
	case strings.HasPrefix(goType, "float"):
		return "a number"
	case goType == "bool":
		return "true or false"
	case goType == "string":
		return "one text"
	}
	return "a list of lines key: value"
}
