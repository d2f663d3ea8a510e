package blk

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"psrt/rdma/mem"
	"psrt/tiers/uring"
)

// clerk does what has to do with names, one after the other, on a goroutine of
// its own: such calls wait for the file system's journal. It writes a byte to a
// pipe that the ring reads, so that a finished errand is a completion like
// others. (An eventfd would do, but for kernels that put off signalling one
// eventfd, Notify's, while another wakes the ring.)
type clerk struct {
	errands  chan errand
	done     chan struct{} // closed when the goroutine has ended
	in, bell *os.File      // the pipe
	pool     pool
	strikes  []byte // where the ring reads the bell's bytes to
	reading  bool
	out      int // errands not answered to the caller

	waiting atomic.Int32 // len(answers)
	mu      sync.Mutex
	answers []errand
}

type errand struct {
	Request

	slot uint32
	fd   int
	err  error
}

func (u *ringDevice) newClerk() (*clerk, error) {
	c := &clerk{errands: make(chan errand, u.depth), done: make(chan struct{})}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("blk: pipe: %w; raise the limit of open files (ulimit -n)", err)
	}
	c.in, c.bell = os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe")
	var err error
	if c.strikes, err = c.pool.alloc(64); err != nil {
		return nil, errors.Join(err, c.in.Close(), c.bell.Close())
	}
	go func() {
		defer close(c.done)
		for e := range c.errands {
			e.fd = -1
			if e.Op == Make {
				e.fd, e.err = u.make(e.Name, e.Len)
			} else {
				e.err = u.unlink(e.Name)
			}
			c.mu.Lock()
			c.answers = append(c.answers, e) // at most depth
			c.mu.Unlock()
			c.waiting.Add(1)
			c.ring()
		}
	}()
	return c, nil
}

// ring neither fails nor waits: a pipe holds 64 KiB, more than there can be
// errands, and its reader is ours.
func (c *clerk) ring() { _, _ = c.bell.Write([]byte{1}) }

// toClerk takes a slot for the errand, so that Depth bounds these, too.
func (u *ringDevice) toClerk(r *Request) (err error) {
	if err = r.checkName(u.block); err != nil {
		return err
	}
	if u.clerk == nil {
		if u.clerk, err = u.newClerk(); err != nil {
			return err
		}
	}
	e := errand{Request: *r, slot: u.free[len(u.free)-1]}
	u.free = u.free[:len(u.free)-1]
	u.clerk.errands <- e // has room for depth
	u.clerk.out++
	u.listen()
	return nil
}

// listen has the ring read the bell.
func (u *ringDevice) listen() {
	c := u.clerk
	if c.reading || c.out == 0 {
		return
	}
	c.reading = true
	e := uring.Read(int32(c.in.Fd()), 0, 0, mem.Address(c.strikes), uint32(len(c.strikes)), 0, clerkUser).Unregistered()
	u.mustPush(&e)
}

// heard takes the bell's completion.
func (u *ringDevice) heard() {
	u.clerk.reading = false
	u.listen()
}

func (c *clerk) ready() bool { return c != nil && c.waiting.Load() > 0 }

// fromClerk answers errands that are done, at most len(out).
func (u *ringDevice) fromClerk(out []Result) int {
	c := u.clerk
	c.mu.Lock()
	n := min(len(out), len(c.answers))
	got := c.answers[:n:n]
	c.answers = c.answers[n:]
	c.mu.Unlock()
	c.waiting.Add(-int32(n))
	for i, e := range got {
		out[i] = Result{ID: e.ID, Err: e.err}
		if e.Op == Make && e.err == nil {
			out[i].N, out[i].Err = u.add(e.fd, e.Name, e.Len)
		}
		u.free = append(u.free, e.slot)
	}
	c.out -= n
	return n
}

// close ends the goroutine, and the ring's last look at the bell, which may
// have heard several strikes in one look before.
func (u *ringDevice) closeClerk(deadline time.Time) error {
	c := u.clerk
	close(c.errands)
	<-c.done
	c.ring()
	for c.reading {
		if k := u.ring.Poll(u.got[:1]); k > 0 && u.got[0].User == clerkUser {
			c.reading = false
		} else if err := u.ring.Wait(deadline); err != nil {
			return errors.Join(fmt.Errorf("blk: closing %s: %w", u, err), c.bell.Close(), c.in.Close())
		}
	}
	return errors.Join(c.bell.Close(), c.in.Close(), c.pool.close())
}
