//go:build cgo

package device

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"psrt/csrc/cuda"
	"psrt/sched/kv"
)

// Direct is what became of a GPU's memory that the trainer registered.
type Direct struct {
	DMABuf  int `json:"dma_buf"` // ranges that servers reach, by how network cards know them
	Peermem int `json:"peermem"`
	Staging int `json:"staging"` // ranges that they do not
	// Why the last of those is not reached, or the last call with the others was not direct.
	Why         string `json:"why,omitempty"`
	PulledBytes uint64 `json:"pulled_bytes"` // of all, without staging
	PushedBytes uint64 `json:"pushed_bytes"`
}

// lent is memory of a GPU that the trainer has registered.
type lent struct {
	of          *card
	first, last uint64
	m           *kv.Memory // nil: servers do not reach it
	fd          int        // its dma-buf, -1: it is known by its addresses
	flush       bool       // or the GPU does not see what network cards have written
	calls       int        // that use it
}

// ways is the card's counter for such memory.
func (l *lent) ways() *int {
	switch d := l.of.card.Direct; {
	case l.m == nil:
		return &d.Staging
	case l.fd >= 0:
		return &d.DMABuf
	default:
		return &d.Peermem
	}
}

// memory is lent memory as a transport sees it.
type memory struct {
	bytes  []byte
	fd     int
	offset int64
}

func (m *memory) Bytes() []byte                { return m.bytes }
func (*memory) Descriptor() (int, int64, bool) { return -1, 0, false }
func (*memory) NUMANode() int                  { return -1 }
func (m *memory) DMABuf() (int, int64, bool)   { return m.fd, m.offset, m.fd >= 0 }

// at is memory of a device, not to be touched. The address stays the driver's.
func at[T any](address uint64, n int) []T {
	a := uintptr(address)
	return unsafe.Slice(*(**T)(unsafe.Pointer(&a)), n)
}

// Register lends servers memory of a GPU, until Unregister: where their network cards and
// the driver allow, rows go straight between them, else through staging, as before. Report
// says which.
func (s *Staging) Register(address, bytes uint64) error {
	s.lending.Lock()
	defer s.lending.Unlock()
	s.mu.Lock()
	c, err := s.find(Place{Address: address}, bytes)
	i, _ := slices.BinarySearchFunc(s.lent, address, func(l *lent, a uint64) int { return compare(l.last, a+1) })
	if err == nil && i < len(s.lent) && s.lent[i].first < address+bytes {
		err = errorf(kv.Invalid, "device: memory [%#x, %#x) overlaps [%#x, %#x), which is registered; unregister that first", address, address+bytes, s.lent[i].first, s.lent[i].last)
	}
	if err == nil && address%4 != 0 {
		err = errorf(kv.Invalid, "device: memory at %#x cannot be registered: it must be aligned to 4 bytes", address)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	l := &lent{of: c, first: address, last: address + bytes, fd: -1}
	why := s.lend(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.card.Direct == nil {
		c.card.Direct = &Direct{}
	}
	*l.ways()++
	if why != nil {
		c.card.Direct.Why = why.Error()
	}
	s.lent = slices.Insert(s.lent, i, l)
	return nil
}

func compare(a, b uint64) int {
	if a < b {
		return -1
	}
	return 1
}

// lend has servers reach memory: by a dma-buf, else by its addresses, which network cards
// know where nvidia_peermem is loaded. Why not, where they do not.
func (s *Staging) lend(l *lent) error {
	ordered, flushes, err := l.of.dev.Writes()
	if err != nil {
		return err
	}
	if !ordered && !flushes {
		return errors.New("the driver does not say when what a network card writes is seen by the GPU")
	}
	l.flush = !ordered
	m := &memory{bytes: at[byte](l.first, int(l.last-l.first)), fd: -1}
	page := uint64(os.Getpagesize())
	first, last := l.first&^(page-1), (l.last+page-1)&^(page-1)
	fd, why := l.of.dev.DMABuf(cuda.Ptr(first), int(last-first))
	if why == nil {
		m.fd, m.offset = fd, int64(l.first-first)
		if l.m, why = s.c.LendDevice(m); why == nil {
			l.fd = fd
			return nil
		}
		_ = syscall.Close(fd)
		if errors.Is(why, kv.ErrNotDirect) {
			return why
		}
	}
	m.fd, m.offset = -1, 0
	if l.m, err = s.c.LendDevice(m); err == nil || errors.Is(err, kv.ErrNotDirect) {
		return err
	}
	return fmt.Errorf("by dma-buf: %w; by nvidia_peermem: %w", why, err)
}

// Unregister ends what Register began: no server reaches the memory any more. is false: it
// was none that begins at the address.
func (s *Staging) Unregister(address uint64) (is bool, err error) {
	s.lending.Lock()
	defer s.lending.Unlock()
	s.mu.Lock()
	i := slices.IndexFunc(s.lent, func(l *lent) bool { return l.first == address })
	if i < 0 {
		s.mu.Unlock()
		return false, nil
	}
	l := s.lent[i]
	if l.calls > 0 {
		s.mu.Unlock()
		return true, errorf(kv.Busy, "device: %d requests use the memory at %#x; wait for them first", l.calls, address)
	}
	s.lent = slices.Delete(s.lent, i, i+1)
	s.mu.Unlock()
	ways := l.ways()
	if l.m != nil {
		if err := s.c.Unregister(l.m); err != nil { // of a call that was given up
			s.mu.Lock()
			s.lent = slices.Insert(s.lent, i, l)
			s.mu.Unlock()
			return true, err
		}
	}
	if l.fd >= 0 {
		_ = syscall.Close(l.fd)
	}
	s.mu.Lock()
	*ways--
	s.mu.Unlock()
	return true, nil
}

// use finds the memory that servers reach and that has n floats, nil: none has. Until done
// it stays.
func (s *Staging) use(p Place, n int) *lent {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	for _, l := range s.lent {
		if l.m != nil && p.Address >= l.first && p.Address < l.last && uint64(4*n) <= l.last-p.Address {
			l.calls++
			s.out++
			return l
		}
	}
	return nil
}

func (s *Staging) done(l *lent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.calls--
	s.returned()
}

// come waits until the caller's stream has done what is on it: servers do not wait for
// streams.
func (s *Staging) come(l *lent, p Place, end time.Time) error {
	over, err := l.of.dev.NewEvent(false)
	if err == nil {
		if err = l.of.dev.Mark(p.Stream, over); err != nil {
			_ = over.Close()
		}
	}
	if err != nil {
		return coded(err, "device: %s", l.of.card.Name)
	}
	err = s.await(l.of, over, end)
	if e := over.Close(); err == nil && e != nil {
		err = coded(e, "device: %s", l.of.card.Name)
	}
	return err
}

// straight has a call be carried out by servers and the GPU's memory alone. is false: it is
// to go through staging, and nothing was sent.
func (s *Staging) straight(p Place, n int, end time.Time, call func([]float32) error, in bool) (is bool, err error) {
	l := s.use(p, n)
	if l == nil {
		return false, nil
	}
	defer s.done(l)
	if err := s.come(l, p, end); err != nil {
		if !in {
			err = errorf(kv.CodeOf(err), "device: nothing was pushed: %w", err)
		}
		return true, err
	}
	if err = call(at[float32](p.Address, n)); err == nil {
		err = s.carried(l, n, in)
	}
	return !s.instead(l, err), err
}

// instead says whether a call goes through staging after all.
func (s *Staging) instead(l *lent, err error) bool {
	if !errors.Is(err, kv.ErrNotDirect) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.of.card.Direct.Why = err.Error()
	return true
}

// carried ends a direct call that went well: work on the GPU sees the rows from here on.
func (s *Staging) carried(l *lent, n int, in bool) error {
	if in && l.flush {
		if err := l.of.dev.Flush(); err != nil {
			return coded(err, "device: rows that were pulled are not seen by %s", l.of.card.Name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, direct := &l.of.card.PulledBytes, &l.of.card.Direct.PulledBytes
	if !in {
		all, direct = &l.of.card.PushedBytes, &l.of.card.Direct.PushedBytes
	}
	*all += uint64(4 * n)
	*direct += uint64(4 * n)
	return nil
}

// straightAsync is straight for a pull that returns when start has.
func (s *Staging) straightAsync(p Place, n int, end time.Time, q *Request, notify func(error), start Start) (is bool, err error) {
	l := s.use(p, n)
	if l == nil {
		return false, nil
	}
	if err = s.come(l, p, end); err == nil {
		_, err = start(at[float32](p.Address, n), func(err error) {
			finish := func() {
				if err == nil {
					err = s.carried(l, n, true)
				}
				s.done(l)
				q.end(err, notify)
			}
			if err != nil {
				finish()
				return
			}
			s.c.Help(finish) // the driver may let a flush take its time
		})
	}
	if err != nil {
		s.done(l)
	}
	return !s.instead(l, err), err
}
