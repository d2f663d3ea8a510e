//go:build cgo

package accel

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo LDFLAGS: -ldl
// #include "load.h"
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"time"
	"unsafe"
)

// Library is a table that was loaded.
type Library struct {
	ops  *C.psrt_accel_ops
	Name string
}

// Load loads a library's file.
func Load(path string) (*Library, error) {
	file := C.CString(path)
	defer C.free(unsafe.Pointer(file))
	var why [512]C.char
	ops := C.psrt_accel_load(file, &why[0], C.size_t(len(why)))
	if ops == nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrNotSupported, path, C.GoString(&why[0]))
	}
	return &Library{ops, C.GoString(ops.name)}, nil
}

// Of is a table that this program has itself, a psrt_accel_ops; nil is none.
func Of(table unsafe.Pointer) (*Library, error) {
	ops := (*C.psrt_accel_ops)(table)
	var why [512]C.char
	if C.psrt_accel_check(ops, &why[0], C.size_t(len(why))) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotSupported, C.GoString(&why[0]))
	}
	return &Library{ops, C.GoString(ops.name)}, nil
}

func (l *Library) failed(call string, r C.int32_t) error {
	if r == 0 {
		return nil
	}
	text := "it does not say why"
	if t := C.psrt_accel_text(l.ops, r); t != nil {
		text = C.GoString(t)
	}
	return &Error{Library: l.Name, Call: call, Result: int(r), Text: text}
}

// Devices is how many there are.
func (l *Library) Devices() (int, error) {
	var n C.int32_t
	err := l.failed("count", C.psrt_accel_count(l.ops, &n))
	return int(n), err
}

// Open takes a device, by its number.
func (l *Library) Open(index int) (*Device, error) {
	d := &Device{l: l}
	if err := l.failed(fmt.Sprintf("open of device %d", index), C.psrt_accel_open(l.ops, C.int32_t(index), &d.at)); err != nil {
		return nil, err
	}
	return d, nil
}

// Device is one that was opened. One goroutine at a time uses it.
type Device struct {
	l  *Library
	at C.uintptr_t
}

// Close gives it back, after all that was made of it is closed.
func (d *Device) Close() error { return d.l.failed("close", C.psrt_accel_close(d.l.ops, d.at)) }

// Room is the memory that is free now, and all there is.
func (d *Device) Room() (free, total int64, err error) {
	var f, t C.uint64_t
	err = d.l.failed("room", C.psrt_accel_room(d.l.ops, d.at, &f, &t))
	return int64(f), int64(t), err
}

// Alloc takes memory of the device, at an address that is a number.
func (d *Device) Alloc(bytes int) (uint64, error) {
	var at C.uint64_t
	err := d.l.failed(fmt.Sprintf("alloc of %d bytes", bytes), C.psrt_accel_alloc(d.l.ops, d.at, C.uint64_t(bytes), &at))
	return uint64(at), err
}

// Free gives it back.
func (d *Device) Free(at uint64) error {
	return d.l.failed("free", C.psrt_accel_free(d.l.ops, d.at, C.uint64_t(at)))
}

// HostAlloc takes memory of the host, which the device reaches.
func (d *Device) HostAlloc(bytes int) ([]byte, error) {
	var at unsafe.Pointer
	if err := d.l.failed(fmt.Sprintf("host_alloc of %d bytes", bytes), C.psrt_accel_host_alloc(d.l.ops, d.at, C.uint64_t(bytes), &at)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(at), bytes), nil
}

// HostFree gives it back.
func (d *Device) HostFree(b []byte) error {
	return d.l.failed("host_free", C.psrt_accel_host_free(d.l.ops, d.at, unsafe.Pointer(unsafe.SliceData(b))))
}

// Event is a moment in a stream.
type Event struct {
	d  *Device
	at C.uintptr_t
}

// NewEvent makes one.
func (d *Device) NewEvent() (*Event, error) {
	e := &Event{d: d}
	if err := d.l.failed("event", C.psrt_accel_event(d.l.ops, d.at, &e.at)); err != nil {
		return nil, err
	}
	return e, nil
}

// Times says whether events may tell how long work took.
func (d *Device) Times() bool { return C.psrt_accel_times(d.l.ops) != 0 }

// NewTimedEvent makes one that tells. Preconditions: Times.
func (d *Device) NewTimedEvent() (*Event, error) {
	e := &Event{d: d}
	if err := d.l.failed("timed_event", C.psrt_accel_timed_event(d.l.ops, d.at, &e.at)); err != nil {
		return nil, err
	}
	return e, nil
}

// Since is the time from an event before e; both are timed and have passed.
func (e *Event) Since(first *Event) (time.Duration, error) {
	var ms C.float
	err := e.d.l.failed("between", C.psrt_accel_between(e.d.l.ops, e.d.at, first.at, e.at, &ms))
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

// Passed says whether the event's moment has come; one never recorded has passed.
func (e *Event) Passed() (bool, error) {
	var passed C.int32_t
	err := e.d.l.failed("passed", C.psrt_accel_passed(e.d.l.ops, e.d.at, e.at, &passed))
	return passed != 0, err
}

// Close ends it.
func (e *Event) Close() error {
	return e.d.l.failed("event_end", C.psrt_accel_event_end(e.d.l.ops, e.d.at, e.at))
}

// Stream is work done in order.
type Stream struct {
	d  *Device
	at C.uintptr_t
}

// NewStream makes one.
func (d *Device) NewStream() (*Stream, error) {
	s := &Stream{d: d}
	if err := d.l.failed("stream", C.psrt_accel_stream(d.l.ops, d.at, &s.at)); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends it, when its work is done.
func (s *Stream) Close() error {
	return s.d.l.failed("stream_end", C.psrt_accel_stream_end(s.d.l.ops, s.d.at, s.at))
}

// Record puts an event behind what was given to the stream.
func (s *Stream) Record(e *Event) error {
	return s.d.l.failed("record", C.psrt_accel_record(s.d.l.ops, s.d.at, e.at, s.at))
}

// Waits says whether a stream may wait for what another does.
func (d *Device) Waits() bool { return C.psrt_accel_waits(d.l.ops) != 0 }

// Wait has what is given to the stream from now on wait for an event, as it was recorded
// last. Preconditions: Waits.
func (s *Stream) Wait(e *Event) error {
	return s.d.l.failed("wait", C.psrt_accel_wait(s.d.l.ops, s.d.at, s.at, e.at))
}

// ToDevice copies from host memory that is not Go's and stays.
func (s *Stream) ToDevice(to uint64, from []byte) error {
	return s.d.l.failed("to_device", C.psrt_accel_to_device(s.d.l.ops, s.d.at, s.at, C.uint64_t(to), unsafe.Pointer(unsafe.SliceData(from)), C.uint64_t(len(from))))
}

// ToHost copies to host memory that is not Go's and stays.
func (s *Stream) ToHost(to []byte, from uint64) error {
	return s.d.l.failed("to_host", C.psrt_accel_to_host(s.d.l.ops, s.d.at, s.at, unsafe.Pointer(unsafe.SliceData(to)), C.uint64_t(from), C.uint64_t(len(to))))
}

// RowsToHost copies n rows of width bytes that lie together, each pitch bytes further on.
func (s *Stream) RowsToHost(to []byte, pitch int, from uint64, width, n int) error {
	if n < 1 || width < 1 || pitch < width || len(to) < (n-1)*pitch+width {
		return fmt.Errorf("accel: a copy of %d rows of %d bytes, %d apart, to %d bytes", n, width, pitch, len(to))
	}
	return s.d.l.failed("rows_to_host", C.psrt_accel_rows_to_host(s.d.l.ops, s.d.at, s.at, unsafe.Pointer(unsafe.SliceData(to)), C.uint64_t(pitch), C.uint64_t(from), C.uint64_t(width), C.uint64_t(n)))
}

// Fill sets bytes.
func (s *Stream) Fill(at uint64, b byte, bytes int) error {
	return s.d.l.failed("fill", C.psrt_accel_fill(s.d.l.ops, s.d.at, s.at, C.uint64_t(at), C.int32_t(b), C.uint64_t(bytes)))
}

// Run runs a kernel for n rows, by its number in ptx.Kernels.
func (s *Stream) Run(kernel, n int, argument []byte) error {
	r := C.psrt_accel_run(s.d.l.ops, s.d.at, s.at, C.int32_t(kernel), C.uint64_t(n), unsafe.Pointer(&argument[0]), C.uint64_t(len(argument)))
	if r == 0 { // words are made where there is an error: a launch is some microseconds
		return nil
	}
	return s.d.l.failed(fmt.Sprintf("run of kernel %d for %d rows", kernel, n), r)
}
