package dataset

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
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
	if e := unknownKeys(root.Content[0], reflect.TypeFor[Schema]()); e != nil {
		e.Path = path
		return nil, e
	}
	s := new(Schema)
	if err := root.Decode(s); err != nil {
		return nil, fileError(path, err, "schema: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := s.Validate(); err != nil {
		return nil, fileError(path, err, "%v", err)
	}
	return s, nil
}

// unknownKeys finds the first key that is no field of t, at any depth.
func unknownKeys(n *yaml.Node, t reflect.Type) *Error {
	switch {
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, c := range n.Content {
			if e := unknownKeys(c, t.Elem()); e != nil {
				return e
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			var names []string
			var field reflect.Type
			for f := range t.NumField() {
				name, _, _ := strings.Cut(t.Field(f).Tag.Get("yaml"), ",")
				names = append(names, name)
				if name == key.Value {
					field = t.Field(f).Type
				}
			}
			if field == nil {
				return &Error{Line: key.Line, Column: key.Column,
					Msg: fmt.Sprintf("schema key %q is unknown%s; known are %s", key.Value, meant(key.Value, names), strings.Join(names, ", "))}
			}
			if e := unknownKeys(n.Content[i+1], field); e != nil {
				return e
			}
		}
	}
	return nil
}

// meant is ", did you mean X" for the nearest of names, if one is near.
func meant(word string, names []string) string {
	best, distance := "", 1+len(word)/2
	for _, name := range names {
		if d := edits(strings.ToLower(word), name); d < distance {
			best, distance = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
