// Package accel drives accelerators by a table of C functions, psrt_accel.h, for memory,
// streams, copies and the kernels of csrc/ptx. Whose table it is does not matter: CUDA's is
// package cuda's, others are loaded from somebody's library.
//
// It owns loading, checking and calling the table. It must not know rows, or what
// kernels do.
//
// The life of a piece of work is that of package cuda, whose names these are: Load or Of,
// Library.Open, Alloc and HostAlloc, NewStream, ToDevice, Run, ToHost, Record,
// Event.Passed. A library that was loaded stays for the life of the process. Whoever
// makes an object closes it, before the device.
//
// Without cgo Load answers ErrNotSupported.
package accel
