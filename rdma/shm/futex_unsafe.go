package shm

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	futexWait = 0 // FUTEX_WAIT; not private: the word is shared between processes
	futexWake = 1 // FUTEX_WAKE
)

// sleepOn blocks while *w equals seen, for at most timeout. It returns for
// any reason; the caller looks again.
func sleepOn(w *atomic.Uint32, seen uint32, timeout time.Duration) {
	ts := unix.NsecToTimespec(int64(timeout))
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWait, uintptr(seen),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// wakeAll wakes everyone who sleeps on w.
func wakeAll(w *atomic.Uint32) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWake, 1<<30, 0, 0, 0)
}
