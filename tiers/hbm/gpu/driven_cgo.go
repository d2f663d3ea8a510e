//go:build cgo

package gpu

import (
	"errors"
	"fmt"

	"psrt/csrc/accel"
	"psrt/csrc/cuda"
	"psrt/csrc/ptx"
)

// driven is what an arena works with: a GPU by CUDA, or an accelerator by somebody's
// table of functions.
type driven interface {
	Room() (free, total int64, err error)
	Alloc(bytes int) (cuda.Ptr, error)
	Free(cuda.Ptr) error
	HostAlloc(bytes int) ([]byte, error)
	HostFree([]byte) error
	stream() (stream, error)
	event() (event, error)
	Close() error
}

// stream is work in order, by which it is closed before its device.
type stream interface {
	ToDevice(to cuda.Ptr, from []byte) error
	ToHost(to []byte, from cuda.Ptr) error
	RowsToHost(to []byte, pitch int, from cuda.Ptr, width, n int) error
	Fill(at cuda.Ptr, b byte, bytes int) error
	// run runs a kernel, by its number in ptx.Kernels, for so many rows.
	run(kernel, rows int, argument []byte) error
	record(event) error
	Close() error
}

type event interface {
	Passed() (bool, error)
	Close() error
}

// byCUDA is a GPU, with the kernels that its driver has compiled.
type byCUDA struct {
	*cuda.Device
	module *cuda.Module // once a stream is wanted
	kernel [len(ptx.Kernels)]cuda.Function
}

func (m *byCUDA) stream() (stream, error) {
	if m.module == nil {
		module, err := m.Module(ptx.Text)
		if err != nil {
			return nil, err
		}
		m.module = module
		for i, name := range ptx.Kernels {
			if m.kernel[i], err = module.Function(name); err != nil {
				return nil, err
			}
		}
	}
	s, err := m.NewStream()
	if err != nil {
		return nil, err
	}
	return &cudaStream{s, m}, nil
}

func (m *byCUDA) event() (event, error) {
	e, err := m.NewEvent(false)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (m *byCUDA) Close() error {
	var err error
	if m.module != nil {
		err = m.module.Close()
	}
	return errors.Join(err, m.Device.Close())
}

type cudaStream struct {
	*cuda.Stream
	m *byCUDA
}

func (s *cudaStream) run(kernel, rows int, argument []byte) error {
	return s.Launch(s.m.kernel[kernel], ptx.Blocks(rows), ptx.BlockThreads, argument)
}

func (s *cudaStream) record(e event) error { return s.Record(e.(*cuda.Event)) }

// byTable is an accelerator of a library's.
type byTable struct{ *accel.Device }

func (m byTable) Alloc(bytes int) (cuda.Ptr, error) {
	at, err := m.Device.Alloc(bytes)
	return cuda.Ptr(at), err
}

func (m byTable) Free(at cuda.Ptr) error { return m.Device.Free(uint64(at)) }

func (m byTable) stream() (stream, error) {
	s, err := m.NewStream()
	if err != nil {
		return nil, err
	}
	return tableStream{s}, nil
}

func (m byTable) event() (event, error) {
	e, err := m.NewEvent()
	if err != nil {
		return nil, err
	}
	return e, nil
}

type tableStream struct{ *accel.Stream }

func (s tableStream) ToDevice(to cuda.Ptr, from []byte) error {
	return s.Stream.ToDevice(uint64(to), from)
}
func (s tableStream) ToHost(to []byte, from cuda.Ptr) error { return s.Stream.ToHost(to, uint64(from)) }
func (s tableStream) RowsToHost(to []byte, pitch int, from cuda.Ptr, width, n int) error {
	return s.Stream.RowsToHost(to, pitch, uint64(from), width, n)
}
func (s tableStream) Fill(at cuda.Ptr, b byte, bytes int) error {
	return s.Stream.Fill(uint64(at), b, bytes)
}
func (s tableStream) run(kernel, rows int, argument []byte) error {
	return s.Run(kernel, rows, argument)
}
func (s tableStream) record(e event) error { return s.Record(e.(*accel.Event)) }

// open takes the device, and learns its name.
func (d *Device) open() (driven, error) {
	if d.Accel != "" {
		l, err := accel.Load(d.Accel)
		if err != nil {
			return nil, err
		}
		dev, err := l.Open(d.Index)
		if err != nil {
			return nil, err
		}
		d.named(fmt.Sprintf("device %d of %s (%s)", d.Index, l.Name, d.Accel))
		return byTable{dev}, nil
	}
	driver, err := cuda.Load(d.Library)
	if err != nil {
		return nil, err
	}
	dev, err := driver.Open(d.Index)
	if err != nil {
		return nil, err
	}
	d.named(fmt.Sprintf("GPU %d, %s (%s)", d.Index, dev.Name, dev.Bus))
	return &byCUDA{Device: dev}, nil
}

// PickFrom is a device of an accelerator's library for a server: they are taken in turns
// by the server's number, as nobody knows who else has which.
func PickFrom(library string, server int) (*Device, error) {
	l, err := accel.Load(library)
	if err != nil {
		return nil, err
	}
	n, err := l.Devices()
	if err == nil && n < 1 {
		err = fmt.Errorf("gpu: %s (%s) shows no device", l.Name, library)
	}
	if err != nil {
		return nil, err
	}
	d := &Device{Accel: library, Index: server % n}
	return d, d.Probe()
}
