//go:build !cgo

package nvml

import "fmt"

// Library is what cannot be loaded without cgo.
type Library struct{}

// Load says that this build has no C.
func Load(string) (*Library, error) {
	return nil, fmt.Errorf("%w: built without cgo", ErrNotSupported)
}

// Links is not reached.
func (*Library) Links(string) (up, all int, err error) { return 0, 0, ErrNotSupported }

// Between is not reached.
func (*Library) Between(string, string) (Way, error) { return Way{}, ErrNotSupported }
