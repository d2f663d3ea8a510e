//go:build !cgo

package ptx

import "psrt/csrc/accel"

// Host says that a build without cgo has no kernels.
func Host() (*accel.Library, error) { return nil, accel.ErrNotSupported }
