//go:build !cgo

package nccl

import "fmt"

// Library is what cannot be loaded without cgo.
type Library struct{}

// Load says that this build has no C.
func Load(string) (*Library, error) {
	return nil, fmt.Errorf("%w: built without cgo", ErrNotSupported)
}

// Version is not reached.
func (l *Library) Version() int { return 0 }
