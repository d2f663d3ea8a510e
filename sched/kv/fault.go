package kv

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// FaultError turns what recover gave into an error: Memory where the caller's
// memory faulted (debug.SetPanicOnFault), else Internal with the stack.
func FaultError(v any) error {
	if f, ok := v.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		return errorf(Unreadable, "kv: memory at %#x cannot be read or written", f.Addr())
	}
	return errorf(Internal, "kv: a bug of psrt: %v\n%s", fmt.Sprint(v), debug.Stack())
}
