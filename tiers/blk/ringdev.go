package blk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"psrt/rdma/invariant"
	"psrt/rdma/mem"
	"psrt/tiers/uring"
)

// ringDevice is a Device over io_uring.
type ringDevice struct {
	*folder
	ring  *uring.Ring
	pool  pool
	slots []slot
	free  []uint32 // slots
	depth int

	clerk *clerk // nil before the first Make or Unlink
	bell  *bell
	notes []string

	unpinned bool  // a note says that there are buffers that are not registered
	bad      error // OnResult's

	got     [64]uring.Completion
	checker invariant.CloseChecker
}

// slot is a request in flight; its number is the Entry's User.
type slot struct {
	Request

	done  int // bytes that earlier attempts moved
	tries int
}

// maxTries bounds how often a request is given to the kernel again: after a
// signal, a thread's end or a short transfer.
const maxTries = 64

// clerkUser marks the completion that says that the clerk has answered.
const clerkUser = 1 << 63

func newUring(d *folder, cfg *Config) (*ringDevice, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		limit.Cur = 0
	}
	ring, err := uring.New(uring.Config{
		// One more for the clerk's bell.
		Entries: cfg.Depth + 1,
		Files:   int(min(uint64(cfg.Files), limit.Cur)), Buffers: MaxBuffers, Plain: cfg.OldRing,
	})
	if err != nil {
		return nil, err
	}
	for _, op := range []uring.Opcode{uring.OpRead, uring.OpWrite, uring.OpReadFixed, uring.OpWriteFixed, uring.OpFsync, uring.OpFallocate} {
		if !ring.Supports(op) {
			return nil, errors.Join(fmt.Errorf("blk: this kernel's io_uring lacks operation %d (Linux 5.6 has all that are needed)", op), ring.Close())
		}
	}
	u := &ringDevice{folder: d, ring: ring, depth: cfg.Depth, slots: make([]slot, cfg.Depth)}
	for i := range u.slots {
		u.free = append(u.free, uint32(i))
	}
	u.note(ring.Why())
	d.made = u.register
	d.gone = func(file int) error { return u.register(file, -1) }
	if u.bell, err = newBell(); err != nil {
		return nil, errors.Join(err, ring.Close())
	}
	u.checker.Open("block device", d.path)
	return u, nil
}

func (u *ringDevice) note(why string) {
	if why != "" {
		u.notes = append(u.notes, why)
	}
}

// register gives the kernel a file in advance; those beyond the table are named
// by descriptor.
func (u *ringDevice) register(file, fd int) error {
	if file >= u.ring.Files() {
		return nil
	}
	return u.ring.RegisterFile(file, fd)
}

func (u *ringDevice) Depth() int { return u.depth }

func (u *ringDevice) Buffers(size int) ([]byte, error) {
	if err := u.open(); err != nil {
		return nil, err
	}
	b, err := u.pool.alloc(size)
	if err != nil {
		return nil, err
	}
	slot, pinned := len(u.pool.arenas)-1, false
	if slot < u.ring.Buffers() {
		err := u.ring.RegisterBuffer(slot, b)
		if pinned = err == nil; !pinned && !u.unpinned {
			u.unpinned = true // said once
			u.note("not all buffers are registered: " + err.Error())
		}
	}
	u.pool.pinned = append(u.pool.pinned, pinned)
	return b, nil
}

func (u *ringDevice) Submit(rs []Request) (taken int, err error) {
	if err := cmp.Or(u.open(), u.bad); err != nil {
		return 0, err
	}
	for i := range rs {
		if len(u.free) == 0 {
			break
		}
		if err = u.take(&rs[i]); err != nil {
			break
		}
		taken++
	}
	return taken, errors.Join(err, u.ring.Submit())
}

func (u *ringDevice) take(r *Request) error {
	if r.Op == Make || r.Op == Unlink {
		return u.toClerk(r)
	}
	f := u.file(r.File)
	if f == nil {
		return noFile(r.File)
	}
	if err := r.check(u.block, f.size, &u.pool); err != nil {
		return err
	}
	i := u.free[len(u.free)-1]
	u.free = u.free[:len(u.free)-1]
	u.slots[i] = slot{Request: *r}
	f.flight++
	u.push(i)
	return nil
}

// push describes slot i's request, or what is left of it, to the kernel. There
// is room: the ring has an entry for each slot and one for the clerk.
func (u *ringDevice) push(i uint32) {
	s := &u.slots[i]
	fd, flags := int32(s.File), uint8(uring.FixedFile)
	if s.File >= u.ring.Files() {
		fd, flags = int32(u.files[s.File].fd), 0
	}
	var e uring.Entry
	switch s.Op {
	case Read, Write:
		buf, at := s.Buf[s.done:], s.Offset+int64(s.done)
		buffer := u.pool.find(s.Buf)
		if s.Op == Read {
			e = uring.Read(fd, flags, uint16(buffer), mem.Address(buf), uint32(len(buf)), at, uint64(i))
		} else {
			e = uring.Write(fd, flags, uint16(buffer), mem.Address(buf), uint32(len(buf)), at, uint64(i))
		}
		if !u.pool.pinned[buffer] {
			e = e.Unregistered()
		}
	case Sync:
		e = uring.Fsync(fd, flags, uint64(i))
	case Discard:
		e = uring.Fallocate(fd, flags, punch, s.Offset, s.Len, uint64(i))
	}
	u.mustPush(&e)
}

const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE

func (u *ringDevice) mustPush(e *uring.Entry) {
	if !u.ring.Push(e) {
		// Entries of an earlier Submit that the kernel was too busy to take count
		// against the same room.
		panic("blk: the submission ring is smaller than the requests in flight")
	}
}

func (u *ringDevice) Poll(out []Result) int {
	if u.dir == nil {
		return 0
	}
	n := 0
	for n < len(out) {
		if u.clerk.ready() {
			n += u.fromClerk(out[n:])
			continue
		}
		k := u.ring.Poll(u.got[:min(len(u.got), len(out)-n)])
		if k == 0 {
			break
		}
		for _, c := range u.got[:k] {
			if c.User == clerkUser {
				u.heard()
				continue
			}
			if u.settle(uint32(c.User), c.Res, &out[n]) {
				n++
			}
		}
	}
	if u.ring.Pushed() > 0 {
		_ = u.ring.Submit() // an error comes again in the caller's next Submit or Wait
	}
	return n
}

// settle ends slot i's request, or gives the rest of it to the kernel again.
func (u *ringDevice) settle(i uint32, res int32, out *Result) (ended bool) {
	s := &u.slots[i]
	err := u.outcome(s, res)
	if err == errAgain {
		u.push(i)
		return false
	}
	*out = Result{ID: s.ID, N: s.done, Err: err}
	u.files[s.File].flight--
	*s = slot{}
	u.free = append(u.free, i)
	return true
}

// errAgain is no error: the request is not done yet.
var errAgain = errors.New("again")

func (u *ringDevice) outcome(s *slot, res int32) error {
	s.tries++
	name := u.files[s.File].name
	if res < 0 {
		switch errno := unix.Errno(-res); {
		case s.tries < maxTries && (errno == unix.EINTR || errno == unix.EAGAIN || errno == unix.ECANCELED):
			return errAgain
		default:
			return failed(s.Op.String(), u.full(name), s.Offset, errno)
		}
	}
	if s.Op != Read && s.Op != Write {
		return nil
	}
	s.done += int(res)
	switch {
	case s.done >= len(s.Buf):
		s.done = len(s.Buf)
		return nil
	case res == 0 || s.tries >= maxTries || s.done%u.block != 0:
		return failed(s.Op.String(), u.full(name), s.Offset+int64(s.done), ErrShort)
	}
	return errAgain
}

// OnResult has no error to return: the first Submit does.
func (u *ringDevice) OnResult(f func()) {
	if u.dir == nil || u.bell.done != nil {
		return
	}
	if u.bad = u.ring.Notify(u.bell.fd); u.bad == nil {
		u.bell.start(f)
	}
}

func (u *ringDevice) inFlight() int { return u.depth - len(u.free) }

func (u *ringDevice) Wait(deadline time.Time) error {
	for {
		switch {
		case u.dir == nil:
			return ErrClosed
		case u.clerk.ready():
			return nil
		case u.inFlight() == 0:
			return ErrIdle
		case u.ring.Ready():
			return nil
		}
		if err := u.ring.Wait(deadline); err != nil {
			return err
		}
		if !time.Now().Before(deadline) && !u.ring.Ready() {
			return os.ErrDeadlineExceeded
		}
	}
}

func (u *ringDevice) String() string {
	what := fmt.Sprintf("io_uring, %s, %s", u.unit(), u.path)
	if len(u.notes) > 0 {
		what += " (" + strings.Join(u.notes, "; ") + ")"
	}
	return what
}

// closeTimeout bounds the wait for requests in flight. Disks answer within
// their own time-out (30 s in Linux), with an error if need be.
const closeTimeout = 60 * time.Second

func (u *ringDevice) Close() error {
	if u.dir == nil {
		return nil
	}
	u.checker.Close()
	err := drain(u, u.inFlight, closeTimeout)
	if u.clerk != nil {
		err = errors.Join(err, u.closeClerk(time.Now().Add(closeTimeout)))
	}
	err = errors.Join(err, u.bell.close(), u.ring.Close())
	if u.inFlight() == 0 {
		err = errors.Join(err, u.pool.close())
	} // else the kernel writes to it still: better lost than reused
	return errors.Join(err, u.folder.close())
}

// drain takes and forgets results until nothing is in flight.
func drain(d Device, inFlight func() int, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	var out [64]Result
	for inFlight() > 0 {
		if d.Poll(out[:]) > 0 {
			continue
		}
		if err := d.Wait(deadline); err != nil && !errors.Is(err, ErrIdle) {
			return fmt.Errorf("blk: closing %s with %d requests in flight: %w", d, inFlight(), err)
		}
	}
	return nil
}
