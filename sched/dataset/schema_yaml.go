package dataset

import (
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"psrt/sched/yamlkeys"
)

// ReadSchema reads the YAML form of a schema and validates it.
func ReadSchema(path string) (*Schema, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError(path, err, "schema cannot be read: %v", plain(err))
	}
	return ParseSchema(path, text)
}

// ParseSchema is ReadSchema on text; path is for messages alone.
func ParseSchema(path string, text []byte) (*Schema, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fileError(path, err, "schema is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(root.Content) == 0 {
		return nil, fileError(path, nil, "schema is empty; it needs a list of columns, each with a name and a kind")
	}
	if k := yamlkeys.Unknown(root.Content[0], reflect.TypeFor[Schema]()); k != nil {
		return nil, &Error{Path: path, Line: k.Line, Column: k.Column, Msg: "schema " + k.Error()}
	}
	s := new(Schema)
	if err := root.Decode(s); err != nil {
		return nil, fileError(path, err, "schema: %s", yamlkeys.Plain(err))
	}
	if err := s.Validate(); err != nil {
		return nil, fileError(path, err, "%v", err)
	}
	return s, nil
}
