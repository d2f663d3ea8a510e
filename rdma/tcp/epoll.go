package tcp

import (
	"cmp"
	"fmt"
	"os"
	"syscall"
)

// epoll is an epoll instance. It may be closed at any time: the descriptor
// lives until nobody is in a call on it.
type epoll struct {
	file   *os.File
	raw    syscall.RawConn // Control alone is used
	events []syscall.EpollEvent
	n      int
	// Bound once: no allocation a call.
	asking, blocking func(fd uintptr)
	first            [1]syscall.EpollEvent // of block
}

// newEpoll makes one that reports at most so many events at once.
func newEpoll(events int) (*epoll, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("tcp: epoll: %w; raise the limit of open files (ulimit -n)", err)
	}
	e := &epoll{file: os.NewFile(uintptr(fd), "epoll"), events: make([]syscall.EpollEvent, events)}
	if e.raw, err = e.file.SyscallConn(); err != nil {
		e.close()
		return nil, fmt.Errorf("tcp: epoll: %w", err)
	}
	e.asking = func(fd uintptr) {
		var err error
		if e.n, err = syscall.EpollWait(int(fd), e.events, 0); err != nil {
			e.n = 0
		}
	}
	e.blocking = func(fd uintptr) { _, _ = syscall.EpollWait(int(fd), e.first[:], blockMillis) }
	return e, nil
}

// block waits for events, of which it leaves all but the edge-triggered to ask,
// for at most blockMillis. One goroutine at a time, beside that of ask.
func (e *epoll) block() { _ = e.raw.Control(e.blocking) }

// ask gives the events there are. One goroutine at a time.
func (e *epoll) ask() []syscall.EpollEvent {
	e.n = 0
	_ = e.raw.Control(e.asking)
	return e.events[:e.n]
}

func (e *epoll) add(fd int, events uint32, token int) error {
	var added error
	err := e.raw.Control(func(ep uintptr) {
		ev := event(events, token)
		added = syscall.EpollCtl(int(ep), syscall.EPOLL_CTL_ADD, fd, &ev)
	})
	return cmp.Or(err, added)
}

func (e *epoll) close() { _ = e.file.Close() }

func event(events uint32, token int) syscall.EpollEvent {
	return syscall.EpollEvent{Events: events, Fd: int32(token), Pad: int32(token >> 32)}
}

func tokenOf(ev *syscall.EpollEvent) int { return int(uint32(ev.Fd)) | int(ev.Pad)<<32 }
