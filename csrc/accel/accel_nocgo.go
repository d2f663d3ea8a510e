//go:build !cgo

package accel

// Library is none.
type Library struct{}

// Load says that a build without cgo loads none.
func Load(string) (*Library, error) { return nil, ErrNotSupported }
