//go:build cgo

package device

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/csrc/cuda"
	"psrt/rdma/mem"
	"psrt/sched/kv"
)

// Place is floats in a GPU's memory, and the stream that work on them is put on: the
// driver's handle, 0 for the default stream.
type Place struct{ Address, Stream uint64 }

// Staging carries rows between servers and GPUs for one client. Any goroutine may
// use it.
type Staging struct {
	c *kv.Client

	mu     sync.Mutex
	driver *cuda.Driver
	cards  map[int]*card
	order  []*card
	out    int // pieces in use
	back   *sync.Cond
	closed bool
}

// Bounds of the pieces of staging.
const (
	maxRooms  = 1280 // kv's most asynchronous requests, and some threads
	keepRooms = 8
	minRoom   = 64 << 10
)

// card is a GPU that the caller has memory of.
type card struct {
	dev  *cuda.Device
	free []*room // last used last
	card Card
}

// Card is what was done with a GPU. Way is how rows come and go.
type Card struct {
	Name         string `json:"name"`
	Way          string `json:"way"`
	PulledBytes  uint64 `json:"pulled_bytes"`
	PushedBytes  uint64 `json:"pushed_bytes"`
	StagingBytes int64  `json:"staging_bytes"`
}

// How rows come and go.
const (
	wayPinned   = "staging, pinned"
	wayPageable = "staging, not pinned"
)

// room is a piece of staging.
type room struct {
	of     *card
	m      *kv.Memory
	floats []float32
	over   *cuda.Event // of the last copy
	pinned bool
}

// New is the staging of a client, which ends it.
func New(c *kv.Client) *Staging {
	s := &Staging{c: c, cards: map[int]*card{}}
	s.back = sync.NewCond(&s.mu)
	c.Accompany(s)
	return s
}

func errorf(code kv.Code, format string, args ...any) error {
	return &kv.Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// coded is a driver's error as a caller decides by it.
func coded(err error, format string, args ...any) error {
	code := kv.Device
	if cuda.IsOutOfMemory(err) {
		code = kv.NoMemory
	}
	return errorf(code, format+": %w", append(args, err)...)
}

// find is the card that has all of some bytes. With mu.
func (s *Staging) find(p Place, bytes uint64) (*card, error) {
	if s.closed {
		return nil, errorf(kv.Closed, "device: the client is closed")
	}
	if s.driver == nil {
		d, err := cuda.Load("")
		if err != nil {
			return nil, coded(err, "device: %#x cannot be memory of a GPU here", p.Address)
		}
		s.driver = d
	}
	first, err := s.driver.Whose(cuda.Ptr(p.Address))
	last := first
	if err == nil {
		last, err = s.driver.Whose(cuda.Ptr(p.Address + bytes - 1))
	}
	switch {
	case cuda.IsInvalidValue(err):
		return nil, errorf(kv.Invalid, "device: %d bytes at %#x are not all a GPU's memory of this process: leave PSRT_DEVICE out for memory of the host", bytes, p.Address)
	case err != nil:
		return nil, coded(err, "device: the memory at %#x", p.Address)
	case first != last:
		return nil, errorf(kv.Invalid, "device: %d bytes at %#x begin on GPU %d and end on GPU %d", bytes, p.Address, first, last)
	}
	if c := s.cards[first]; c != nil {
		return c, nil
	}
	dev, err := s.driver.Open(first)
	if err != nil {
		return nil, coded(err, "device: GPU %d", first)
	}
	c := &card{dev: dev, card: Card{Name: fmt.Sprintf("GPU %d, %s (%s)", first, dev.Name, dev.Bus), Way: wayPinned}}
	s.cards[first] = c
	s.order = append(s.order, c)
	return c, nil
}

// take is staging for n floats, which the device does not use any more.
func (s *Staging) take(p Place, n int) (*room, error) {
	bytes := 4 * n
	s.mu.Lock()
	c, err := s.find(p, uint64(bytes))
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	if s.out == maxRooms {
		s.mu.Unlock()
		return nil, errorf(kv.Busy, "device: %d calls with a GPU's memory are under way, the limit: wait for some", maxRooms)
	}
	r, err := c.idle(n)
	if err == nil {
		s.out++
	}
	s.mu.Unlock()
	if err != nil || r != nil {
		return r, err
	}
	size := minRoom
	for size < bytes {
		size *= 2
	}
	if r, err = s.build(c, size); err != nil {
		s.mu.Lock()
		s.returned()
		s.mu.Unlock()
		return nil, err
	}
	return r, nil
}

// idle takes the smallest piece that n floats fit into and that nobody uses, nil:
// there is none. With the staging's mu.
func (c *card) idle(n int) (*room, error) {
	best := -1
	for i, r := range c.free {
		if len(r.floats) < n || best >= 0 && len(r.floats) >= len(c.free[best].floats) || r.m.InUse() {
			continue
		}
		over, err := r.over.Passed()
		if err != nil {
			return nil, coded(err, "device: %s", c.card.Name)
		}
		if over {
			best = i
		}
	}
	if best < 0 {
		return nil, nil
	}
	r := c.free[best]
	c.free = append(c.free[:best], c.free[best+1:]...)
	return r, nil
}

// build makes a piece of staging.
func (s *Staging) build(c *card, bytes int) (*room, error) {
	over, err := c.dev.NewEvent(false)
	if err != nil {
		return nil, coded(err, "device: %s", c.card.Name)
	}
	m, err := s.c.Alloc(bytes)
	if err != nil {
		return nil, errors.Join(err, over.Close())
	}
	r := &room{of: c, m: m, floats: mem.Float32s(m.Bytes()), over: over}
	err = c.dev.Pin(m.Bytes())
	r.pinned = err == nil
	s.mu.Lock()
	defer s.mu.Unlock()
	c.card.StagingBytes += int64(bytes)
	if err != nil { // slower, and nothing else
		c.card.Way = fmt.Sprintf("%s: %v", wayPageable, err)
	}
	return r, nil
}

// returned counts a call that is over. With mu.
func (s *Staging) returned() {
	s.out--
	s.back.Broadcast()
}

// give has staging wait for its next use. Pieces that are too many go, but for those
// in use yet.
func (s *Staging) give(r *room) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.returned()
	c := r.of
	c.free = append(c.free, r)
	for i := 0; i < len(c.free) && len(c.free) > keepRooms; {
		if over, err := c.free[i].over.Passed(); err != nil || !over || c.free[i].m.InUse() || s.end(c.free[i]) != nil {
			i++
			continue
		}
		c.free = append(c.free[:i], c.free[i+1:]...)
	}
}

// end gives a piece back. With mu.
func (s *Staging) end(r *room) error {
	if err := r.unpin(); err != nil {
		return err
	}
	if err := s.c.Unregister(r.m); err != nil { // it stays, and is slower
		return err
	}
	r.of.card.StagingBytes -= int64(4 * len(r.floats))
	return r.over.Close()
}

func (r *room) unpin() error {
	if !r.pinned {
		return nil
	}
	r.pinned = false
	return r.of.dev.Unpin(r.m.Bytes())
}

// in puts the copy of n floats to the device on the caller's stream.
func (s *Staging) in(r *room, p Place, n int) error {
	if err := r.of.dev.CopyIn(cuda.Ptr(p.Address), mem.Bytes(r.floats[:n]), p.Stream, r.over); err != nil {
		return coded(err, "device: rows that were pulled did not get to %s", r.of.card.Name)
	}
	s.mu.Lock()
	r.of.card.PulledBytes += uint64(4 * n)
	s.mu.Unlock()
	return nil
}

// longestNap is between two looks at whether gradients are out.
const longestNap = time.Millisecond

// fetch has n floats from the device in staging, behind what is on the caller's stream.
func (s *Staging) fetch(r *room, p Place, n int, limit time.Duration) error {
	fail := func(err error) error {
		return coded(err, "device: nothing was pushed: gradients did not get out of %s", r.of.card.Name)
	}
	if err := r.of.dev.CopyOut(mem.Bytes(r.floats[:n]), cuda.Ptr(p.Address), p.Stream, r.over); err != nil {
		return fail(err)
	}
	end := time.Now().Add(s.c.Within(limit))
	for nap := 2 * time.Microsecond; ; nap = min(nap+nap/4+time.Microsecond, longestNap) {
		over, err := r.over.Passed()
		s.mu.Lock()
		closed := s.closed
		if over && err == nil {
			r.of.card.PushedBytes += uint64(4 * n)
		}
		s.mu.Unlock()
		switch {
		case err != nil:
			return fail(err)
		case over:
			return nil
		case closed:
			return errorf(kv.Closed, "device: the client is closed; nothing was pushed")
		case time.Now().After(end):
			return errorf(kv.Timeout, "device: nothing was pushed: what is on the stream of %s before the gradients is not over in time; raise timeout_us, or look at what the stream waits for", r.of.card.Name)
		}
		time.Sleep(nap)
	}
}

// End waits for calls that are being refused and for the devices, and gives all
// back. It is kv's to call.
func (s *Staging) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.out > 0 {
		s.back.Wait()
	}
	end := time.Now().Add(endWithin)
	for _, c := range s.order {
		for _, r := range c.free {
			for over := false; !over && time.Now().Before(end); time.Sleep(longestNap) {
				var err error
				if over, err = r.over.Passed(); err != nil {
					break // it copies no more
				}
			}
			_ = r.unpin() // the arena goes with the client, whatever the device says
			_ = r.over.Close()
		}
		_ = c.dev.Close()
	}
	s.order, s.cards = nil, map[int]*card{}
}

// endWithin bounds waiting for copies that a device has not done: pages that it has
// pinned stay its own, so that it copies into nobody else's.
const endWithin = 10 * time.Second

// Report is what StatsJSON shows: nothing where there was no GPU's memory.
func (s *Staging) Report() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == 0 {
		return nil
	}
	all := []Card{}
	for _, c := range s.order {
		all = append(all, c.card)
	}
	return all
}
