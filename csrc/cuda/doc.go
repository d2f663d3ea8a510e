// Package cuda drives NVIDIA GPUs through the driver's library, libcuda.so.1,
// which is loaded when it is asked for: nothing of CUDA is needed to build, and
// where there is no driver Load says so.
//
// It owns loading, the few prototypes, and that every call enters the device's
// primary context (the one that PyTorch uses) and leaves it again: goroutines change
// threads, contexts are a thread's. It must not know rows, or what kernels do.
//
// Accelerator is the driver as an instance of csrc/accel's table (table.c), by which rows
// are worked on; the calls below it are for those who need more of CUDA than a table has.
//
// The life of a piece of work:
//
//	Load, Driver.Open     the library, a device
//	Alloc, HostAlloc      memory of the device; pinned memory, which it copies fastest
//	Stream                work in order; ToDevice, Launch, ToHost return at once
//	Record, Event.Wait    a moment in a stream, and waiting for it
//
// Memory of the host that a stream copies is not Go's heap, and stays until an event
// behind the copy has passed. Whoever makes an object closes it, before the device.
// An error of a kernel is sticky in CUDA: every later call on the device has it.
//
// Without cgo Load answers ErrNotSupported.
package cuda
