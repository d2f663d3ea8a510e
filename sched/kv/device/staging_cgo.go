//go:build cgo

package device

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"psrt/csrc/cuda"
	"psrt/rdma/mem"
	"psrt/rdma/nap"
	"psrt/sched/kv"
)

// Place is floats in a GPU's memory, and the stream that work on them is put on: the
// driver's handle, 0 for the default stream.
type Place struct{ Address, Stream uint64 }

// Staging carries rows between servers and GPUs for one client. Any goroutine may
// use it.
type Staging struct {
	c *kv.Client

	lending sync.Mutex // has registering and its end one at a time; before mu

	mu     sync.Mutex
	lent   []*lent // by address
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
	maxBehind = 32   // of a card that a stream has to come to, when one more is made
	keepRooms = 8
	minRoom   = 64 << 10
)

// card is a GPU that the caller has memory of.
type card struct {
	dev  *cuda.Device
	free []*room // last used last
	ends int     // pieces that are being given back
	card Card
}

// Card is what was done with a GPU. Way is how rows come and go that do not so directly.
type Card struct {
	Name         string `json:"name"`
	Way          string `json:"way"`
	PulledBytes  uint64 `json:"pulled_bytes"`
	PushedBytes  uint64 `json:"pushed_bytes"`
	StagingBytes int64  `json:"staging_bytes"`
	// Direct is nil where nothing was registered.
	Direct *Direct `json:"direct,omitempty"`
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

// Has says whether an address is in a GPU's memory of this process.
func (s *Staging) Has(address uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.driver == nil {
		d, err := cuda.Load("")
		if err != nil {
			return false
		}
		s.driver = d
	}
	_, err := s.driver.Whose(cuda.Ptr(address))
	return err == nil
}

// take is staging for n floats, which the device does not use any more. Where the
// caller's streams are far behind it waits for them.
func (s *Staging) take(p Place, n int, end time.Time) (*room, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.find(p, 4*uint64(n))
	if err != nil {
		return nil, err
	}
	if s.out == maxRooms {
		return nil, errorf(kv.Busy, "device: %d calls with a GPU's memory are under way, the limit: wait for some", maxRooms)
	}
	s.out++
	r, err := s.obtain(c, n, end)
	if err != nil {
		s.returned()
	}
	return r, err
}

// obtain finds a piece, or makes one. With mu, which others have while it waits.
func (s *Staging) obtain(c *card, n int, end time.Time) (*room, error) {
	for begin := time.Now(); ; {
		if r, err := c.idle(n); r != nil || err != nil {
			return r, err
		}
		if s.trim(c); len(c.free) < maxBehind {
			s.mu.Unlock()
			defer s.mu.Lock()
			return s.build(c, n)
		}
		if err := s.c.Over(); err != nil {
			return nil, err
		}
		if time.Now().After(end) {
			return nil, errorf(kv.Timeout, "device: %d pieces of staging wait for streams of %s, the limit, and none is over in time; raise timeout_us, or look at what the streams wait for", len(c.free), c.card.Name)
		}
		s.mu.Unlock()
		nap.Rest(time.Since(begin))
		s.mu.Lock()
	}
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

// build makes a piece of staging for n floats.
func (s *Staging) build(c *card, n int) (*room, error) {
	bytes := minRoom
	for bytes < 4*n {
		bytes *= 2
	}
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

// give has staging wait for its next use.
func (s *Staging) give(r *room) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.of.free = append(r.of.free, r)
	s.trim(r.of)
	s.returned()
}

// trim ends pieces that are too many, but for those in use yet. With mu.
func (s *Staging) trim(c *card) {
	for i := 0; i < len(c.free) && len(c.free) > keepRooms; {
		r := c.free[i]
		if over, err := r.over.Passed(); err != nil || !over || r.m.InUse() {
			i++
			continue
		}
		c.free = append(c.free[:i], c.free[i+1:]...)
		c.ends++
		go s.end(r)
	}
}

// end gives a piece back, beside the calls: the driver unpins memory when all that the trainer has
// given to the card is over, which may be never.
func (s *Staging) end(r *room) {
	err := r.unpin()
	s.mu.Lock()
	defer s.mu.Unlock()
	r.of.ends--
	if s.closed { // its memory goes with the client
		return
	}
	if err == nil {
		err = s.c.Unregister(r.m)
	}
	if err != nil { // it stays, and is slower
		r.of.free = append(r.of.free, r)
		return
	}
	r.of.card.StagingBytes -= int64(4 * len(r.floats))
	_ = r.over.Close()
}

func (r *room) unpin() error {
	if !r.pinned {
		return nil
	}
	r.pinned = false
	return r.of.dev.Unpin(r.m.Bytes())
}

// in puts the copy of n floats to the device on the caller's stream.
func (s *Staging) in(r *room, p Place, n int, end time.Time) error {
	if err := s.reach(r, p, end); err != nil {
		return err
	}
	if err := r.of.dev.CopyIn(cuda.Ptr(p.Address), mem.Bytes(r.floats[:n]), p.Stream, r.over); err != nil {
		return coded(err, "device: rows that were pulled did not get to %s", r.of.card.Name)
	}
	s.mu.Lock()
	r.of.card.PulledBytes += uint64(4 * n)
	s.mu.Unlock()
	return nil
}

// fetch has n floats from the device in staging, behind what is on the caller's stream.
func (s *Staging) fetch(r *room, p Place, n int, end time.Time) error {
	err := s.reach(r, p, end)
	if err == nil {
		if err = r.of.dev.CopyOut(mem.Bytes(r.floats[:n]), cuda.Ptr(p.Address), p.Stream, r.over); err != nil {
			err = coded(err, "gradients did not get out of %s", r.of.card.Name)
		}
	}
	if err == nil {
		err = s.await(r.of, r.over, end)
	}
	if err != nil {
		return errorf(kv.CodeOf(err), "device: nothing was pushed: %w", err)
	}
	s.mu.Lock()
	r.of.card.PushedBytes += uint64(4 * n)
	s.mu.Unlock()
	return nil
}

// reach waits until the caller's stream has done what is on it, where staging is not
// pinned: there a copy keeps who asks for it until the stream comes to it, however long.
func (s *Staging) reach(r *room, p Place, end time.Time) error {
	if r.pinned {
		return nil
	}
	if err := r.of.dev.Mark(p.Stream, r.over); err != nil {
		return coded(err, "device: %s", r.of.card.Name)
	}
	return s.await(r.of, r.over, end)
}

// endNap is between two looks at what a client's end waits for.
const endNap = time.Millisecond

// await waits for an event.
func (s *Staging) await(c *card, event *cuda.Event, end time.Time) error {
	for begin := time.Now(); ; nap.Rest(time.Since(begin)) {
		over, err := event.Passed()
		if err != nil {
			return coded(err, "device: %s", c.card.Name)
		}
		if over {
			return nil
		}
		if err := s.c.Over(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return errorf(kv.Timeout, "device: what is on the stream of %s is not over in time; raise timeout_us, or look at what the stream waits for", c.card.Name)
		}
	}
}

// until is when a call that may take so long ends.
func (s *Staging) until(limit time.Duration) time.Time { return time.Now().Add(s.c.Within(limit)) }

// End waits for calls that are being refused and for the devices, and gives all
// back. It is kv's to call.
func (s *Staging) End() {
	s.lending.Lock() // one that is being lent is given back, too
	defer s.lending.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.out > 0 {
		s.back.Wait()
	}
	end := time.Now().Add(endWithin)
	for _, c := range s.order {
		s.leave(c, end)
	}
	for _, l := range s.lent {
		if l.fd >= 0 {
			_ = syscall.Close(l.fd)
		}
	}
	s.order, s.cards, s.lent = nil, map[int]*card{}, nil
}

// leave has a card's pieces given back, as long as there is time, and a second where a card before it has
// taken that: streams of the trainer's may hang that no piece waits for. With mu, which pieces that are
// being given back want.
func (s *Staging) leave(c *card, until time.Time) {
	for c.ends > 0 && time.Now().Before(until) {
		s.mu.Unlock()
		time.Sleep(endNap)
		s.mu.Lock()
	}
	if c.ends > 0 {
		return
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		c.end(until)
	}()
	select {
	case <-left:
	case <-time.After(max(time.Until(until), time.Second)):
	}
}

// end gives back a device's pieces; their arenas go with the client, whatever the device
// says. Where copies are still to come it has nothing back: the driver's calls for that wait
// for all that its streams have, and pages that it has pinned stay its own.
func (c *card) end(until time.Time) {
	for _, r := range c.free {
		for {
			over, err := r.over.Passed()
			if over || err != nil { // it copies no more
				break
			}
			if time.Now().After(until) {
				return
			}
			time.Sleep(endNap)
		}
	}
	for _, r := range c.free {
		_ = r.unpin()
		_ = r.over.Close()
	}
	_ = c.dev.Close()
}

// endWithin bounds waiting for copies that a device has not done.
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
		card := c.card
		if card.Direct != nil {
			direct := *card.Direct
			card.Direct = &direct
		}
		all = append(all, card)
	}
	return all
}
