package uring

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"psrt/rdma/invariant"
)

// ErrClosed is a call on a closed Ring.
var ErrClosed = errors.New("uring: ring is closed")

// Ring is one io_uring. All calls belong to one goroutine; see the package
// comment for its thread.
type Ring struct {
	fd  int
	mem *shared

	mode     mode
	features uint32
	ops      [256]bool
	files    int
	buffers  int
	why      []string

	tail    uint32 // of the submission ring, what the kernel does not see yet
	pushed  uint32 // entries since it last took some
	started bool   // false as long as the ring is made but disabled

	wait waitArg
	args registerArgs

	checker invariant.CloseChecker
}

// New makes a ring, or gives an *UnavailableError that says who forbids it.
func New(cfg Config) (*Ring, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	completions := cfg.Completions
	if completions == 0 {
		completions = 2 * cfg.Entries
	}
	r := &Ring{fd: -1}
	var p params
	var errno unix.Errno
	for _, r.mode = range cfg.modes() {
		p = params{flags: r.mode.flags, cqEntries: uint32(max(completions, cfg.Entries))}
		if r.fd, errno = setup(uint32(cfg.Entries), &p); errno != unix.EINVAL {
			break
		}
	}
	if errno != 0 {
		return nil, unavailable(errno, "/")
	}
	unix.CloseOnExec(r.fd)
	r.features = p.features
	if p.features&featSingleMmap == 0 || p.features&featNoDrop == 0 {
		_ = unix.Close(r.fd)
		return nil, &UnavailableError{Errno: unix.ENOSYS, Why: "this kernel's io_uring may lose completions (before Linux 5.6)", Remedy: "a newer kernel"}
	}
	var err error
	if r.mem, err = mapRings(r.fd, &p); err != nil {
		_ = unix.Close(r.fd)
		return nil, fmt.Errorf("uring: mapping a ring of %d entries: %w", p.sqEntries, err)
	}
	for i := range r.mem.array {
		r.mem.array[i] = uint32(i)
	}
	r.started = r.mode.flags&setupDisabled == 0
	r.tables(&cfg)
	r.checker.Open("ring", "io_uring")
	return r, nil
}

// Push adds an entry to the next Submit; false when Entries are there already.
func (r *Ring) Push(e *Entry) bool {
	m := r.mem
	if m == nil || r.tail-m.sqHead.Load() > m.sqMask {
		return false
	}
	m.entries[r.tail&m.sqMask] = *e
	r.tail++
	r.pushed++
	return true
}

// Pushed is the number of entries that the kernel has not taken.
func (r *Ring) Pushed() int { return int(r.pushed) }

// Submit hands all pushed entries to the kernel, in one system call. Short of
// memory it may take fewer: the rest stays pushed, and the next call tries
// again.
func (r *Ring) Submit() error {
	if r.mem == nil {
		return ErrClosed
	}
	if r.pushed == 0 {
		return nil
	}
	if err := r.start(); err != nil {
		return err
	}
	r.mem.sqTail.Store(r.tail)
	n, errno := enter(r.fd, r.pushed, 0)
	return r.submitted(n, errno)
}

func (r *Ring) submitted(n int, errno unix.Errno) error {
	switch errno {
	case 0:
		r.pushed -= min(uint32(n), r.pushed)
		return nil
	case unix.EAGAIN, unix.EBUSY, unix.EINTR:
		return nil
	}
	return fmt.Errorf("uring: submitting %d requests: %w", r.pushed, errno)
}

// start enables a ring that was made disabled, from the thread it will belong
// to.
func (r *Ring) start() error {
	if r.started {
		return nil
	}
	if errno := registerEnable(r.fd); errno != 0 {
		return fmt.Errorf("uring: enabling the ring: %w", errno)
	}
	r.started = true
	return nil
}

// Poll takes completions, without a system call unless the kernel asks for one:
// when it holds some back until this thread comes by.
func (r *Ring) Poll(out []Completion) int {
	m := r.mem
	if m == nil {
		return 0
	}
	head := m.cqHead.Load()
	if head == m.cqTail.Load() {
		if m.sqFlags.Load()&(sqTaskrun|sqOverflow) == 0 || !r.started {
			return 0
		}
		_, _ = enter(r.fd, 0, enterGetEvents) // what fails here fails in Submit, too
	}
	n := 0
	for tail := m.cqTail.Load(); n < len(out) && head != tail; n++ {
		out[n] = m.completions[head&m.cqMask]
		head++
	}
	m.cqHead.Store(head)
	return n
}

// Ready says whether Poll would find something.
func (r *Ring) Ready() bool {
	m := r.mem
	return m != nil && (m.cqHead.Load() != m.cqTail.Load() || m.sqFlags.Load()&(sqTaskrun|sqOverflow) != 0)
}

// Wait submits what is pushed and sleeps until there is a completion, or to
// the deadline: os.ErrDeadlineExceeded. A signal may end it early.
func (r *Ring) Wait(deadline time.Time) error {
	m := r.mem
	if m == nil {
		return ErrClosed
	}
	if err := r.start(); err != nil {
		return err
	}
	m.sqTail.Store(r.tail)
	left := time.Until(deadline)
	if left <= 0 {
		if err := r.Submit(); err != nil {
			return err
		}
		if r.Ready() {
			return nil
		}
		return os.ErrDeadlineExceeded
	}
	if r.features&featExtArg == 0 {
		return r.waitPoll(left)
	}
	r.wait.timeout = unix.NsecToTimespec(int64(left))
	n, errno := enterWait(r.fd, r.pushed, 1, &r.wait)
	if errno == unix.ETIME {
		return os.ErrDeadlineExceeded
	}
	return r.submitted(n, errno)
}

// waitPoll is Wait for kernels before 5.11: the ring's descriptor is readable
// while there are completions.
func (r *Ring) waitPoll(left time.Duration) error {
	if err := r.Submit(); err != nil || r.Ready() {
		return err
	}
	ts := unix.NsecToTimespec(int64(left))
	n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}, &ts, nil)
	switch {
	case errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("uring: waiting for the ring: %w", err)
	case n == 0:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Close ends the ring. Requests in flight go on to use their memory: the caller
// has waited for them. Closing again does nothing.
func (r *Ring) Close() error {
	if r.mem == nil {
		return nil
	}
	r.checker.Close()
	r.mem.unmap()
	r.mem = nil
	return unix.Close(r.fd)
}
