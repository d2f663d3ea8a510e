//go:build !cgo

package gpu

import (
	"psrt/csrc/accel"
	"psrt/csrc/cuda"
	"psrt/csrc/probe"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm"
)

// Probe says that a build without cgo drives no GPU.
func (d *Device) Probe() error {
	_, err := cuda.Load(d.Library)
	return err
}

func (d *Device) room() (int64, error) { return 0, d.Probe() }

// Open says so, too.
func (d *Device) Open(*accessor.Accessor, *probe.Bounded, int, int) (hbm.Arena, error) {
	return nil, d.Probe()
}

// PickFrom says that such a build loads no accelerator either.
func PickFrom(string, int) (*Device, error) { return nil, accel.ErrNotSupported }

// Speeds says so, too.
func Speeds(string, int) ([]float64, error) { return nil, cuda.ErrNotSupported }

func measured(*cuda.Driver, int) ([]float64, error) { return nil, cuda.ErrNotSupported }
