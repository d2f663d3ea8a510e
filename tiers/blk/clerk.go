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
// its own: such calls wait for the file system's journal. It rings an eventfd
// that the ring reads, so that a finished errand is a completion like others.
type clerk struct {
	errands chan errand
	done    chan struct{} // closed when the goroutine has ended
	bell    *os.File
	pool    pool
	count   []byte // where the ring reads the bell's counter to
	reading bool
	out     int // errands not answered to the caller

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
	count, err := c.pool.alloc(8)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("blk: eventfd: %w; raise the limit of open files (ulimit -n)", err), c.pool.close())
	}
	c.bell, c.count = os.NewFile(uintptr(fd), "eventfd"), count
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

// ring cannot fail: the counter has room for 2^64 strikes.
func (c *clerk) ring() { _, _ = c.bell.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}) }

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
	e := uring.Read(int32(c.bell.Fd()), 0, 0, mem.Address(c.count), uint32(len(c.count)), 0, clerkUser).Unregistered()
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
			return errors.Join(fmt.Errorf("blk: closing %s: %w", u, err), c.bell.Close())
		}
	}
	return errors.Join(c.bell.Close(), c.pool.close())
}
