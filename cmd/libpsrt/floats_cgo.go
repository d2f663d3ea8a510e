//go:build cgo

package main

// #include "calls.h"
import "C"

import (
	"psrt/rdma/mem"
	"psrt/sched/kv"
	"psrt/sched/kv/device"
)

// floatsAt is where the rows or the vector of a call lie: in the host's memory, or,
// where gpus is not nil, in a GPU's, which nothing here may touch.
type floatsAt struct {
	host  []float32
	gpus  *device.Staging
	place device.Place
	n     int
}

// floatsOf checks where rows or a vector lie.
func floatsOf(c *clientHandle, a address, floats uint64, o *C.psrt_seen_options, name string) (f floatsAt, err error) {
	if room := uint64(o.buffer_bytes); room != 0 && room < floats*4 {
		return f, tooSmall("%s has %d bytes (options.buffer_bytes), %d are needed", name, room, floats*4)
	}
	m, err := view[float32](a, floats, name)
	if err != nil {
		return f, err
	}
	if o.flags&C.PSRT_DEVICE != 0 {
		return floatsAt{gpus: c.gpus, place: device.Place{Address: uint64(a), Stream: uint64(o.stream)}, n: int(floats)}, nil
	}
	return floatsAt{host: m}, c.c.CheckRange(mem.Address(mem.Bytes(m)), floats*4)
}

// into has a pull fill the floats.
func (f *floatsAt) into(o kv.Options, pull func([]float32) error) error {
	if f.gpus == nil {
		return pull(f.host)
	}
	return f.gpus.Into(f.place, f.n, o.Timeout, pull)
}

// from has a push send them.
func (f *floatsAt) from(o kv.Options, push func([]float32) error) error {
	if f.gpus == nil {
		return push(f.host)
	}
	return f.gpus.From(f.place, f.n, o.Timeout, push)
}

// pending is an asynchronous call.
type pending interface {
	Done() <-chan struct{}
	Err() error
}

// intoAsync is into that returns when the request has begun.
func (f *floatsAt) intoAsync(o kv.Options, notify func(error), start device.Start) (pending, error) {
	if f.gpus == nil {
		return some(start(f.host, notify))
	}
	return some(f.gpus.IntoAsync(f.place, f.n, o.Timeout, notify, start))
}

// fromAsync is from that returns then.
func (f *floatsAt) fromAsync(o kv.Options, notify func(error), start device.Start) (pending, error) {
	if f.gpus == nil {
		return some(start(f.host, notify))
	}
	return some(f.gpus.FromAsync(f.place, f.n, o.Timeout, notify, start))
}

// some is a request, or none where there is an error.
func some[T pending](r T, err error) (pending, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}
