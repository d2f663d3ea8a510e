package tcp

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// bellToken marks the event of a bell; ports count from 1.
const bellToken = 0

// epoll is an epoll instance with a bell, an eventfd that ends a wait. Both
// may be closed under a waiter: the descriptors live until it returns.
type epoll struct {
	fd, bell       *os.File
	rawFD, rawBell syscall.RawConn
	ringer         func(fd uintptr)
}

// watcher is one goroutine's use of an epoll: its buffers and its call, bound
// once so that waiting allocates nothing.
type watcher struct {
	e       *epoll
	events  []syscall.EpollEvent
	millis  int
	n       int
	waiting func(fd uintptr)
}

func newEpoll() (*epoll, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("tcp: epoll: %w; raise the limit of open files (ulimit -n)", err)
	}
	const cloexec = syscall.O_CLOEXEC
	bell, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, cloexec, 0)
	if errno != 0 {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("tcp: eventfd: %w; raise the limit of open files (ulimit -n)", errno)
	}
	e := &epoll{fd: os.NewFile(uintptr(fd), "epoll"), bell: os.NewFile(bell, "eventfd")}
	one := [8]byte{1} // the host's byte order does not matter: any number but 0 rings
	e.ringer = func(fd uintptr) { _, _ = syscall.Write(int(fd), one[:]) }
	if e.rawFD, err = e.fd.SyscallConn(); err == nil {
		e.rawBell, err = e.bell.SyscallConn()
	}
	if err == nil {
		// Edge-triggered: every ring ends one wait, and nobody has to read it.
		err = e.add(int(bell), syscall.EPOLLIN|edge, bellToken)
	}
	if err != nil {
		e.close()
		return nil, fmt.Errorf("tcp: epoll: %w", err)
	}
	return e, nil
}

const edge = 1 << 31 // EPOLLET, which package syscall has as a negative number

func (e *epoll) add(fd int, events uint32, token int) error {
	err := os.ErrClosed
	if outer := e.rawFD.Control(func(ep uintptr) {
		ev := event(events, token)
		err = syscall.EpollCtl(int(ep), syscall.EPOLL_CTL_ADD, fd, &ev)
	}); outer != nil {
		return outer
	}
	return err
}

func event(events uint32, token int) syscall.EpollEvent {
	return syscall.EpollEvent{Events: events, Fd: int32(token), Pad: int32(token >> 32)}
}

// ring ends a wait, the one in progress or the next. Any goroutine.
func (e *epoll) ring() { _ = e.rawBell.Control(e.ringer) }

func (e *epoll) close() {
	_ = e.fd.Close()
	_ = e.bell.Close()
}

func (e *epoll) watcher(events int) *watcher {
	w := &watcher{e: e, events: make([]syscall.EpollEvent, events)}
	w.waiting = func(fd uintptr) {
		var err error
		if w.n, err = syscall.EpollWait(int(fd), w.events, w.millis); err != nil {
			w.n = 0
		}
	}
	return w
}

// wait gives the events there are within d, rounded up to milliseconds; 0 asks
// without waiting.
func (w *watcher) wait(d time.Duration) []syscall.EpollEvent {
	w.millis = int((d + time.Millisecond - 1) / time.Millisecond)
	w.n = 0
	_ = w.e.rawFD.Control(w.waiting)
	return w.events[:w.n]
}

func tokenOf(ev *syscall.EpollEvent) int { return int(uint32(ev.Fd)) | int(ev.Pad)<<32 }
