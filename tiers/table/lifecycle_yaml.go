package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// maxLifecycleBytes bounds a settings file: all names there are make 2 KiB.
const maxLifecycleBytes = 64 << 10

// ParseLifecycle reads settings as a file has them, in YAML or JSON, without a
// name above them. What is not given, all of an empty file too, has its default.
func ParseLifecycle(text []byte) (*Lifecycle, error) {
	if len(text) > maxLifecycleBytes {
		return nil, fmt.Errorf("lifecycle: settings of %d bytes, at most %d", len(text), maxLifecycleBytes)
	}
	l := DefaultLifecycle()
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&l); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("lifecycle: settings of more than one document; leave out what follows `---`")
	}
	if err := l.validate(Optimizer{}); err != nil {
		return nil, err
	}
	return &l, nil
}
