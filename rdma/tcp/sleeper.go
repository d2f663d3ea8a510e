package tcp

import (
	"cmp"
	"fmt"
	"os"
	"syscall"
	"time"
)

// sleeper lets one goroutine sleep until an epoll has events, a bell rings or a
// deadline passes. It sleeps in the runtime's poller: a thread blocked in
// epoll_wait would keep the processor that other goroutines need until the
// runtime notices, which can take it 10 ms. (Wait does that first, for a
// millisecond, as it wakes up 10 us sooner.)
//
// The runtime watches an epoll of the sleeper's own, which holds the bell and,
// while armed, the epoll in question: arrivals wake a thread of the runtime
// only when somebody sleeps for them.
type sleeper struct {
	file *os.File
	raw  syscall.RawConn // of file
	bell *os.File        // an eventfd, edge-triggered and never read: each write is an event
	ring syscall.RawConn // of bell

	inner  *epoll
	events [2]syscall.EpollEvent
	spent  bool // the arming: inner had events

	// Bound once: no allocation a call.
	attempt           func(fd uintptr) bool
	arming, disarming [2]func(fd uintptr)
	strike            func(fd uintptr)
}

const (
	noToken    = 0 // in inner, where ports count from 1
	innerToken = 1
	bellToken  = 2
	edge       = 1 << 31 // EPOLLET, which package syscall has as a negative number
)

func newSleeper(inner *epoll) (*sleeper, error) {
	outer, err := newEpoll(1)
	if err != nil {
		return nil, err
	}
	defer outer.close()
	bell, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, fmt.Errorf("tcp: eventfd: %w; raise the limit of open files (ulimit -n)", errno)
	}
	s := &sleeper{inner: inner, bell: os.NewFile(bell, "eventfd")}
	var added, copied error
	err = cmp.Or(outer.add(int(bell), syscall.EPOLLIN|edge, bellToken),
		inner.add(int(bell), syscall.EPOLLIN|edge, noToken), // for block
		inner.raw.Control(func(fd uintptr) { added = outer.add(int(fd), 0, innerToken) }), added,
		outer.raw.Control(func(fd uintptr) { s.file, copied = duplicate(fd, true) }), copied)
	if err == nil {
		s.raw, err = s.file.SyscallConn()
	}
	if err == nil {
		s.ring, err = s.bell.SyscallConn()
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("tcp: epoll: %w", err)
	}
	one := [8]byte{1} // in any byte order a number that is not 0
	s.strike = func(fd uintptr) { _, _ = syscall.Write(int(fd), one[:]) }
	s.attempt = s.take
	s.arming = s.watch(syscall.EPOLLIN | syscall.EPOLLONESHOT)
	s.disarming = s.watch(0)
	return s, nil
}

// watch makes the two steps, one for each descriptor, that change what inner
// is watched for.
func (s *sleeper) watch(events uint32) (steps [2]func(uintptr)) {
	outer := 0
	steps[0] = func(fd uintptr) {
		outer = int(fd)
		_ = s.inner.raw.Control(steps[1])
	}
	steps[1] = func(inner uintptr) {
		ev := event(events, innerToken)
		_ = syscall.EpollCtl(outer, syscall.EPOLL_CTL_MOD, int(inner), &ev) // cannot fail: it was added
	}
	return steps
}

// arm makes the next events of inner end a sleep, once. One goroutine at a
// time calls arm and disarm.
func (s *sleeper) arm()    { _ = s.raw.Control(s.arming[0]) }
func (s *sleeper) disarm() { _ = s.raw.Control(s.disarming[0]) }

// take looks for a reason to wake up. The first look comes after the runtime
// has begun to remember events, so that none is missed.
func (s *sleeper) take(fd uintptr) bool {
	n, err := syscall.EpollWait(int(fd), s.events[:], 0)
	for i := range s.events[:max(n, 0)] {
		s.spent = s.spent || tokenOf(&s.events[i]) == innerToken
	}
	return n > 0 || err != nil && err != syscall.EINTR
}

// sleep returns whether inner had events, which ends the arming; false for the
// bell, the deadline (zero: none) or the end.
func (s *sleeper) sleep(until time.Time) bool {
	s.spent = false
	if s.file.SetReadDeadline(until) == nil {
		_ = s.raw.Read(s.attempt)
	}
	return s.spent
}

// wake ends a sleep, this one or the next. Any goroutine.
func (s *sleeper) wake() { _ = s.ring.Control(s.strike) }

func (s *sleeper) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
	_ = s.bell.Close()
}
