//go:build cgo

package main

// #include "calls.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"

	"psrt/sched/kv"
)

// address is a pointer as C passed it: a number until it was looked at.
type address = C.uintptr_t

// lowest is the first address that can be memory of a process, beyond the first
// that cannot.
const (
	lowest = 1 << 16
	beyond = 1 << 56
)

// pointer makes a checked address one. The pointer stays C's: nothing keeps it.
func pointer(a address) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

func invalid(format string, args ...any) error {
	return &kv.Error{Code: kv.Invalid, Err: fmt.Errorf("psrt: "+format, args...)}
}

// view is n elements of the caller's memory, after all checks that need no look at
// it. No elements are no memory, wherever they are.
func view[T any](a address, n uint64, name string) ([]T, error) {
	var zero T
	size, align := uint64(unsafe.Sizeof(zero)), uint64(unsafe.Alignof(zero))
	switch at := uint64(a); {
	case n == 0:
		return nil, nil
	case at == 0:
		return nil, invalid("%s is NULL, with %d elements", name, n)
	case at < lowest:
		return nil, invalid("%s is %#x, which is no address", name, at)
	case at%align != 0:
		return nil, invalid("%s is %#x, which is not aligned to %d bytes", name, at, align)
	case n > beyond/size || at > beyond || at+n*size > beyond:
		return nil, invalid("%s is %d elements of %d bytes at %#x, which is beyond the address space", name, n, size, at)
	}
	return unsafe.Slice((*T)(pointer(a)), n), nil
}

// place is where one result goes; nil where the caller may leave it out and did.
func place[T any](a address, name string, needed bool) (*T, error) {
	if a == 0 && !needed {
		return nil, nil
	}
	s, err := view[T](a, 1, name)
	if err != nil {
		return nil, err
	}
	return &s[0], nil
}

// overlap says whether two ranges share bytes.
func overlap(a address, an uint64, b address, bn uint64) bool {
	return an > 0 && bn > 0 && uint64(a) < uint64(b)+bn && uint64(b) < uint64(a)+an
}

// text reads a string of C's, at most most bytes long.
func text(a address, most int, name string) (string, error) {
	if _, err := view[byte](a, 1, name); err != nil {
		return "", err
	}
	var b []byte
	for p := pointer(a); ; p = unsafe.Add(p, 1) {
		c := *(*byte)(p)
		if c == 0 {
			return string(b), nil
		}
		if len(b) == most {
			return "", invalid("%s has more than %d bytes", name, most)
		}
		b = append(b, c)
	}
}

// options reads a caller's options, which may be older or newer than this library.
func options(a address) (C.psrt_seen_options, error) {
	var o C.psrt_seen_options
	if a == 0 {
		return o, nil
	}
	size, err := place[C.uint32_t](a, "options", true)
	if err != nil {
		return o, err
	}
	n := uint64(*size)
	if n < 8 || n > 4096 || uint64(a)%8 != 0 {
		return o, invalid("options.size is %d at %#x; set it to sizeof(psrt_call_options)", n, uint64(a))
	}
	theirs, err := view[byte](a, n, "options")
	if err != nil {
		return o, err
	}
	ours := unsafe.Slice((*byte)(unsafe.Pointer(&o)), unsafe.Sizeof(o))
	for _, b := range theirs[copy(ours, theirs):] {
		if b != 0 {
			return o, invalid("options of %d bytes ask for something that this library does not know (its own have %d); use a newer libpsrt", n, len(ours))
		}
	}
	const known = C.PSRT_READ_ONLY | C.PSRT_ANY_CLOCK | C.PSRT_WEIGHTS_ONLY | C.PSRT_DEVICE | C.PSRT_CHECK_FINITE
	if f := o.flags &^ known; f != 0 {
		return o, invalid("options.flags has unknown bits %#x", uint32(f))
	}
	if o.stream != 0 && o.flags&C.PSRT_DEVICE == 0 {
		return o, invalid("options.stream is set without PSRT_DEVICE in options.flags, which says that values or grads are in a GPU's memory")
	}
	if o.timeout_us > 24*3600*1e6 {
		return o, invalid("options.timeout_us is %d, more than a day", uint64(o.timeout_us))
	}
	return o, nil
}

// errOfGPU: the process may not touch memory, because a GPU has it.
var errOfGPU = errors.New("psrt: a GPU has it")

// populate makes sure that memory is there and may be written, without changing it. What a
// GPU has it does not touch, if ofGPU says so: the fault is an error here, but ends a process
// whose own handler of faults comes first, as Python's faulthandler does.
func populate(b []byte, ofGPU func() bool) error {
	page := uint64(unix.Getpagesize())
	first := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	end := (first + uint64(len(b)) + page - 1) &^ (page - 1)
	first &^= page - 1
	whole := unsafe.Slice((*byte)(pointer(address(first))), end-first)
	err := unix.Madvise(whole, unix.MADV_POPULATE_WRITE)
	if err == nil {
		return nil
	}
	if ofGPU() { // kernels, and what stands for one, have several words for memory that is a card's
		return errOfGPU
	}
	if !errors.Is(err, unix.EINVAL) {
		return unreadable(b, err)
	}
	if err := unix.Madvise(whole, unix.MADV_POPULATE_READ); err == nil {
		return unreadable(b, errors.New("it may not be written"))
	} else if !errors.Is(err, unix.EINVAL) {
		return unreadable(b, err)
	}
	sum := byte(0) // a kernel before 5.14, or memory that may not be read
	for i := uint64(0); i < uint64(len(b)); i += page {
		sum += b[i]
	}
	runtime.KeepAlive(sum) // or nothing would be read
	return nil
}

func unreadable(b []byte, err error) error {
	if err == nil {
		return nil
	}
	return &kv.Error{Code: kv.Unreadable, Err: fmt.Errorf("psrt: %d bytes at %p cannot be registered: %w", len(b), unsafe.SliceData(b), err)}
}

// fail leaves an error's message where psrt_last_error finds it, and is its status.
func fail(e *C.psrt_text, err error) C.int {
	if err == nil {
		return C.PSRT_OK
	}
	write(unsafe.Slice((*byte)(unsafe.Pointer(&e.text)), len(e.text)), err.Error())
	e.push = C.uint64_t(kv.PushOf(err))
	return status(err)
}

// write puts a text with its terminating 0 into b, cut where it is too long.
func write(b []byte, s string) {
	n := copy(b[:len(b)-1], s)
	b[n] = 0
}

// caught ends every function that C calls: a panic, of the caller's memory or of
// ours, becomes a status.
func caught(e *C.psrt_text, result *C.int) {
	if v := recover(); v != nil {
		*result = fail(e, kv.FaultError(v))
	}
}

// begin makes faults of this call panics.
func begin() { debug.SetPanicOnFault(true) }

// status is C's number for an error.
func status(err error) C.int {
	switch kv.CodeOf(err) {
	case kv.Invalid:
		return C.PSRT_EINVAL
	case kv.BadConfig:
		return C.PSRT_ECONFIG
	case kv.Token:
		return C.PSRT_ETOKEN
	case kv.Connect:
		return C.PSRT_ECONNECT
	case kv.Timeout:
		return C.PSRT_ETIMEDOUT
	case kv.NoTable:
		return C.PSRT_ENOTABLE
	case kv.Mismatch:
		return C.PSRT_EMISMATCH
	case kv.Stale:
		return C.PSRT_ESTALE
	case kv.NoMemory:
		return C.PSRT_ENOMEM
	case kv.Refused:
		return C.PSRT_ESERVER
	case kv.Busy:
		return C.PSRT_EBUSY
	case kv.IO:
		return C.PSRT_EIO
	case kv.Closed:
		return C.PSRT_ECLOSED
	case kv.Clock:
		return C.PSRT_ECLOCK
	case kv.Unreadable:
		return C.PSRT_EFAULT
	case kv.NoHandle:
		return C.PSRT_EHANDLE
	case kv.TooSmall:
		return C.PSRT_ETOOSMALL
	case kv.NotFinite:
		return C.PSRT_ENOTFINITE
	case kv.Device:
		return C.PSRT_EDEVICE
	}
	return C.PSRT_EINTERNAL
}
