//go:build !cgo

package layers

import "psrt/sched/train/model"

// Device is none.
type Device struct{}

// Open says that there is none.
func Open(string, int, *model.Model, int, int) (*Device, error) { return nil, ErrNotSupported }

// Name is empty.
func (d *Device) Name() string { return "" }

// Exact is false.
func (d *Device) Exact() bool { return false }

// Values has nowhere to put them.
func (d *Device) Values([]float32) error { return ErrNotSupported }

// Step computes nothing.
func (d *Device) Step([]Leaf) error { return ErrNotSupported }

// Close has nothing to close.
func (d *Device) Close() error { return nil }
