package rdma

import "runtime/debug"

// Guarded is f for a goroutine of a library whose host must go on whatever happens:
// a panic of f is told to told, with what recover gave, while its stack can still be
// had; so is a fault of memory, such as a peer's that has become shorter. Where told
// is nil either ends the process, as usual.
func Guarded(told func(any), f func()) func() {
	if told == nil {
		return f
	}
	return func() {
		debug.SetPanicOnFault(true)
		defer func() {
			if v := recover(); v != nil {
				told(v)
			}
		}()
		f()
	}
}
