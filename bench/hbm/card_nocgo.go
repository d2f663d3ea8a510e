//go:build !cgo

package hbm

import "psrt/csrc/cuda"

func newCard(*Config, []uint32, *finder) (bed, error) { return nil, cuda.ErrNotSupported }
