package yamlkeys

import (
	"bytes"
	"errors"
	"io"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// Decode reads text into a pointer to a struct, where what text leaves out stays as it is.
// It gives io.EOF where there is nothing to read, a *Key where there is one too many, and
// else an error in the words of the file.
func Decode(text []byte, into any) error {
	var root yaml.Node
	switch err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&root); {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return errors.New("not YAML: " + plain(err))
	}
	if k := unknown(root.Content[0], reflect.TypeOf(into)); k != nil {
		return k
	}
	if err := root.Decode(into); err != nil {
		return errors.New(plain(err))
	}
	return nil
}
