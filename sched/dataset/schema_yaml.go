package dataset

import (
	"errors"
	"io"
	"os"

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
	s := new(Schema)
	var key *yamlkeys.Key
	switch err := yamlkeys.Decode(text, s); {
	case errors.Is(err, io.EOF):
		return nil, fileError(path, nil, "schema is empty; it needs a list of columns, each with a name and a kind")
	case errors.As(err, &key):
		return nil, &Error{Path: path, Line: key.Line, Column: key.Column, Msg: "schema " + key.Error()}
	case err != nil:
		return nil, fileError(path, err, "schema: %v", err)
	}
	if err := s.Validate(); err != nil {
		return nil, fileError(path, err, "%v", err)
	}
	return s, nil
}
