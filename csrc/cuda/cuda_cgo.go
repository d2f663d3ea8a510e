//go:build cgo

package cuda

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -I${SRCDIR}/../accel
// #cgo LDFLAGS: -ldl -lpthread
// #include "table.h"
// #include <stdlib.h>
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"psrt/csrc/accel"
)

// Driver is the loaded library.
type Driver struct{}

func failed(call string, r C.int32_t) error {
	if r == 0 {
		return nil
	}
	var text [256]C.char
	C.psrt_cuda_error_text(r, &text[0], C.size_t(len(text)))
	return &Error{Call: call, Result: Result(r), Text: C.GoString(&text[0])}
}

// Load loads the driver's library: path, else what Variable names, else Library. What
// is loaded first stays for the life of the process.
func Load(path string) (*Driver, error) {
	path = cmp.Or(path, os.Getenv(Variable), Library)
	file := C.CString(path)
	defer C.free(unsafe.Pointer(file))
	var why [512]C.char
	if C.psrt_cuda_load(file, &why[0], C.size_t(len(why))) != 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotSupported, C.GoString(&why[0]))
	}
	return &Driver{}, nil
}

// Accelerator is the driver as a table of functions, whose kernels are k: those that are
// given first stay for the life of the process. That accel is imported has this package
// built again where the table's header changes.
func (d *Driver) Accelerator(k Kernels) (*accel.Library, error) {
	text, names := C.CString(k.Text), C.CString(strings.Join(k.Names, " "))
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(names))
	return accel.Of(unsafe.Pointer(C.psrt_cuda_table(text, names, C.uint32_t(k.Lanes), C.uint32_t(k.BlockThreads))))
}

// Version is the newest CUDA that the driver knows, such as 12040 for 12.4.
func (d *Driver) Version() (int, error) {
	var v C.int32_t
	err := failed("cuDriverGetVersion", C.psrt_cuda_version(&v))
	return int(v), err
}

// Devices lists them.
func (d *Driver) Devices() ([]Info, error) {
	var n C.int32_t
	if err := failed("cuDeviceGetCount", C.psrt_cuda_count(&n)); err != nil {
		return nil, err
	}
	var all []Info
	for i := range n {
		var name, bus [128]C.char
		var bytes C.uint64_t
		var major, minor C.int32_t
		if err := failed("cuDeviceGetName", C.psrt_cuda_describe(i, &name[0], C.size_t(len(name)), &bus[0], C.size_t(len(bus)), &bytes, &major, &minor)); err != nil {
			return nil, err
		}
		all = append(all, Info{Index: int(i), Name: C.GoString(&name[0]), Bus: C.GoString(&bus[0]), Bytes: int64(bytes), Major: int(major), Minor: int(minor)})
	}
	return all, nil
}

// Open takes a device's primary context.
func (d *Driver) Open(index int) (*Device, error) {
	all, err := d.Devices()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(all) {
		return nil, fmt.Errorf("cuda: device %d of %d", index, len(all))
	}
	dev := &Device{Info: all[index]}
	if err := failed("cuDevicePrimaryCtxRetain", C.psrt_cuda_retain(C.int32_t(index), &dev.at)); err != nil {
		return nil, err
	}
	return dev, nil
}

// Device is a GPU with its primary context. Any goroutine may use it.
type Device struct {
	Info
	at C.psrt_cuda_place
}

// Close gives the context back, after all that was made of it is closed.
func (d *Device) Close() error {
	return failed("cuDevicePrimaryCtxRelease", C.psrt_cuda_release(&d.at))
}

// In runs f on a thread that is in the device's context, for libraries that look for it
// there.
func (d *Device) In(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := failed("cuCtxPushCurrent", C.psrt_cuda_enter(&d.at)); err != nil {
		return err
	}
	err := f()
	return errors.Join(err, failed("cuCtxPopCurrent", C.psrt_cuda_leave()))
}

// Room is the memory that is free now, and all there is.
func (d *Device) Room() (free, total int64, err error) {
	var f, t C.uint64_t
	err = failed("cuMemGetInfo", C.psrt_cuda_room(&d.at, &f, &t))
	return int64(f), int64(t), err
}

// Alloc takes memory of the device, for 256 bytes aligned at least.
func (d *Device) Alloc(bytes int) (Ptr, error) {
	var at C.uint64_t
	err := failed(fmt.Sprintf("cuMemAlloc of %d bytes", bytes), C.psrt_cuda_alloc(&d.at, C.uint64_t(bytes), &at))
	return Ptr(at), err
}

// Free gives it back.
func (d *Device) Free(p Ptr) error {
	return failed("cuMemFree", C.psrt_cuda_free(&d.at, C.uint64_t(p)))
}

// HostAlloc takes pinned memory of the host.
func (d *Device) HostAlloc(bytes int) ([]byte, error) {
	var at unsafe.Pointer
	if err := failed(fmt.Sprintf("cuMemHostAlloc of %d bytes", bytes), C.psrt_cuda_host_alloc(&d.at, C.uint64_t(bytes), &at)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(at), bytes), nil
}

// HostFree gives it back.
func (d *Device) HostFree(b []byte) error {
	return failed("cuMemFreeHost", C.psrt_cuda_host_free(&d.at, unsafe.Pointer(unsafe.SliceData(b))))
}

// DMABuf is a file descriptor by which an RDMA device can reach memory of the
// device, whole pages of it. Not every driver can.
func (d *Device) DMABuf(p Ptr, bytes int) (fd int, err error) {
	if C.psrt_cuda_has_dmabuf() == 0 {
		return -1, fmt.Errorf("%w: the driver has no cuMemGetHandleForAddressRange, which came with CUDA 11.7", ErrNotSupported)
	}
	var at C.int32_t
	err = failed("cuMemGetHandleForAddressRange", C.psrt_cuda_dmabuf(&d.at, C.uint64_t(p), C.uint64_t(bytes), &at))
	return int(at), err
}

// Writes tells whether work that is given to the device sees what a network card has written
// before: as it is (ordered), or after Flush (flushes). Neither: not for sure.
func (d *Device) Writes() (ordered, flushes bool, err error) {
	var o, f C.int32_t
	err = failed("cuDeviceGetAttribute of a network card's writes", C.psrt_cuda_writes(&d.at, &o, &f))
	return o != 0, f != 0, err
}

// Flush has what network cards have written be seen by work from here on.
func (d *Device) Flush() error {
	return failed("cuFlushGPUDirectRDMAWrites", C.psrt_cuda_flush(&d.at))
}

// Stream is work done in order. One goroutine at a time uses it.
type Stream struct {
	d  *Device
	at unsafe.Pointer
}

// NewStream makes one that waits for no other.
func (d *Device) NewStream() (*Stream, error) {
	s := &Stream{d: d}
	return s, failed("cuStreamCreate", C.psrt_cuda_stream(&d.at, &s.at))
}

// Close ends a stream once its work is done, without waiting for it.
func (s *Stream) Close() error {
	return failed("cuStreamDestroy", C.psrt_cuda_stream_end(&s.d.at, s.at))
}

// Raw is the driver's handle, for libraries that take one.
func (s *Stream) Raw() unsafe.Pointer { return s.at }

// ToDevice copies from host memory that is not Go's and stays.
func (s *Stream) ToDevice(to Ptr, from []byte) error {
	return failed("cuMemcpyHtoDAsync", C.psrt_cuda_to_device(&s.d.at, C.uint64_t(to), unsafe.Pointer(unsafe.SliceData(from)), C.uint64_t(len(from)), s.at))
}

// ToHost copies to host memory that is not Go's and stays.
func (s *Stream) ToHost(to []byte, from Ptr) error {
	return failed("cuMemcpyDtoHAsync", C.psrt_cuda_to_host(&s.d.at, unsafe.Pointer(unsafe.SliceData(to)), C.uint64_t(from), C.uint64_t(len(to)), s.at))
}

// Within copies on the device.
func (s *Stream) Within(to, from Ptr, bytes int) error {
	return failed("cuMemcpyDtoDAsync", C.psrt_cuda_within(&s.d.at, C.uint64_t(to), C.uint64_t(from), C.uint64_t(bytes), s.at))
}

// Fill sets bytes.
func (s *Stream) Fill(at Ptr, b byte, bytes int) error {
	return failed("cuMemsetD8Async", C.psrt_cuda_fill(&s.d.at, C.uint64_t(at), C.int32_t(b), C.uint64_t(bytes), s.at))
}

// Launch runs a kernel whose one argument is a structure; argument is read before
// Launch returns.
func (s *Stream) Launch(f Function, blocks, threads int, argument []byte) error {
	if blocks < 1 || blocks > maxBlocks || threads < 1 || threads > 1024 || len(argument) == 0 {
		return fmt.Errorf("cuda: launch of %d blocks of %d threads with %d bytes of arguments", blocks, threads, len(argument))
	}
	return failed("cuLaunchKernel", C.psrt_cuda_launch(&s.d.at, f.at, C.uint32_t(blocks), C.uint32_t(threads), unsafe.Pointer(&argument[0]), s.at))
}

// Record puts an event behind what was given to the stream.
func (s *Stream) Record(e *Event) error {
	return failed("cuEventRecord", C.psrt_cuda_record(&s.d.at, e.at, s.at))
}

// After has what follows wait for an event, of any stream of the device.
func (s *Stream) After(e *Event) error {
	return failed("cuStreamWaitEvent", C.psrt_cuda_stream_wait(&s.d.at, s.at, e.at))
}

// Event is a moment in a stream.
type Event struct {
	d  *Device
	at unsafe.Pointer
}

// NewEvent makes one; timed ones can be asked for the time between them.
func (d *Device) NewEvent(timed bool) (*Event, error) {
	e := &Event{d: d}
	var t C.int32_t
	if timed {
		t = 1
	}
	return e, failed("cuEventCreate", C.psrt_cuda_event(&d.at, t, &e.at))
}

// Passed says whether the event's moment has come; one never recorded has passed.
func (e *Event) Passed() (bool, error) {
	var done C.int32_t
	err := failed("cuEventQuery", C.psrt_cuda_passed(&e.d.at, e.at, &done))
	return done != 0, err
}

// Wait sleeps until the moment has come.
func (e *Event) Wait() error {
	return failed("cuEventSynchronize", C.psrt_cuda_await(&e.d.at, e.at))
}

// Since is the time in ms from an event before e; both are timed and have passed.
func (e *Event) Since(first *Event) (ms float64, err error) {
	var t C.float
	err = failed("cuEventElapsedTime", C.psrt_cuda_between(&e.d.at, first.at, e.at, &t))
	return float64(t), err
}

// Close ends an event.
func (e *Event) Close() error {
	return failed("cuEventDestroy", C.psrt_cuda_event_end(&e.d.at, e.at))
}

// Module is kernels, compiled for the device by its driver.
type Module struct {
	d  *Device
	at unsafe.Pointer
}

// Function is a kernel; it lives as long as its module.
type Function struct{ at unsafe.Pointer }

// Module compiles PTX text.
func (d *Device) Module(ptx string) (*Module, error) {
	text := C.CString(ptx)
	defer C.free(unsafe.Pointer(text))
	var log [4096]C.char
	m := &Module{d: d}
	if err := failed("cuModuleLoadDataEx", C.psrt_cuda_module(&d.at, text, &log[0], C.size_t(len(log)), &m.at)); err != nil {
		return nil, fmt.Errorf("%w %s", err, C.GoString(&log[0]))
	}
	return m, nil
}

// Function finds a kernel.
func (m *Module) Function(name string) (Function, error) {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	var f Function
	err := failed("cuModuleGetFunction "+name, C.psrt_cuda_function(&m.d.at, m.at, n, &f.at))
	return f, err
}

// Close unloads it.
func (m *Module) Close() error {
	return failed("cuModuleUnload", C.psrt_cuda_module_end(&m.d.at, m.at))
}

// Whose is the number of the device that has the memory at an address.
func (d *Driver) Whose(at Ptr) (int, error) {
	var n C.int32_t
	err := failed(fmt.Sprintf("cuPointerGetAttribute of %#x", uint64(at)), C.psrt_cuda_whose(C.uint64_t(at), &n))
	return int(n), err
}

// Pin has memory of the host, which is not Go's heap, stay where it is, so that
// devices copy it fastest; Unpin ends that, before the memory goes.
func (d *Device) Pin(b []byte) error {
	return failed(fmt.Sprintf("cuMemHostRegister of %d bytes", len(b)), C.psrt_cuda_pin(&d.at, unsafe.Pointer(unsafe.SliceData(b)), C.uint64_t(len(b))))
}

// Unpin ends what Pin began.
func (d *Device) Unpin(b []byte) error {
	return failed("cuMemHostUnregister", C.psrt_cuda_unpin(&d.at, unsafe.Pointer(unsafe.SliceData(b))))
}

// Mark records over on somebody's stream, as CopyIn does behind a copy.
func (d *Device) Mark(stream uint64, over *Event) error {
	return failed("cuEventRecord", C.psrt_cuda_mark(&d.at, C.uint64_t(stream), over.at))
}

// CopyIn copies to the device on somebody's stream, named by its handle, 0 being the
// default stream, and records over behind the copy. Both in one call of C's, in the
// context and out again.
func (d *Device) CopyIn(to Ptr, from []byte, stream uint64, over *Event) error {
	return failed(fmt.Sprintf("cuMemcpyHtoDAsync of %d bytes to %#x", len(from), uint64(to)),
		C.psrt_cuda_copy_in(&d.at, C.uint64_t(to), unsafe.Pointer(unsafe.SliceData(from)), C.uint64_t(len(from)), C.uint64_t(stream), over.at))
}

// CopyOut copies to the host, as CopyIn does the other way.
func (d *Device) CopyOut(to []byte, from Ptr, stream uint64, over *Event) error {
	return failed(fmt.Sprintf("cuMemcpyDtoHAsync of %d bytes at %#x", len(to), uint64(from)),
		C.psrt_cuda_copy_out(&d.at, unsafe.Pointer(unsafe.SliceData(to)), C.uint64_t(from), C.uint64_t(len(to)), C.uint64_t(stream), over.at))
}
