//go:build !cgo

package cuda

import "fmt"

// Driver is what cannot be loaded without cgo.
type Driver struct{}

// Load says that this build has no C.
func Load(string) (*Driver, error) {
	return nil, fmt.Errorf("%w: built without cgo", ErrNotSupported)
}

// Version is not reached.
func (d *Driver) Version() (int, error) { return 0, ErrNotSupported }

// Devices is not reached.
func (d *Driver) Devices() ([]Info, error) { return nil, ErrNotSupported }

// Open is not reached.
func (d *Driver) Open(int) (*Device, error) { return nil, ErrNotSupported }

// Device is what cannot be opened without cgo.
type Device struct{}
