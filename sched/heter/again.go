package heter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/rdma/mem"
)

// Again is for jobs in which another process takes the place of one that died, at either
// end of a link. What was sent last at each place is kept, in memory that outlives a
// connection: a lower rank sends it to the process that takes the upper one's place, and
// an upper rank answers with it a leaf that comes a second time.
//
// Faults survived: the death of any ranks of one kind; a connection that breaks between
// two that live; a rank that is stopped, whose number another process gets. Not survived:
// that both ends of a link die within a step; First tells the upper rank of that.
type Again struct {
	Generation int           // of this process among those that have had its number, from 1
	For        time.Duration // how long who is lost may be away
	// Of a lower rank: Where the newest process of an upper rank listens, what one that
	// has left has Told, and the First step that this process sends.
	Where func(ctx context.Context, number int) (string, error)
	Told  func(ctx context.Context, number int) (report json.RawMessage, ok bool, err error)
	First uint64
	// Of an upper rank: by lower rank, the oldest step of which it lacks leaves.
	From map[int]uint64
}

// lookAgain is between two attempts to reach who takes a dead rank's place.
const lookAgain = 100 * time.Millisecond

// again is what a link has that is made again.
type again struct {
	kept []kept     // by place
	room *mem.Arena // the messages
}

// kept is the message that was sent at a place last.
type kept struct {
	head  Head
	sent  bool // it lies in the room, whole
	open  bool // of a lower rank: its answer is to come
	taken bool // an answer has been given to the owner
}

// resend sends what is kept at a place, if there is anybody to send it to. With mu.
func (l *Link) resend(place int) {
	w := l.wire
	if w == nil {
		return
	}
	k := &l.again.kept[place]
	at, n := place*l.Shape.placeBytes(), headBytes+4*int(k.head.Floats)
	from := l.again.room.Bytes()[at : at+n]
	k.head.encode(from)
	if err := w.lay(at, from); err != nil {
		l.dropNow(w, err)
		return
	}
	if err := w.transmit(place, k.head); err != nil {
		l.dropNow(w, err)
	}
}

// lay brings a message to where transmit sends it from.
func (w *wire) lay(at int, message []byte) error {
	if !w.mapped {
		copy(w.send[at:], message)
		return nil
	}
	to, err := w.ep.Enter(w.remote.Slice(uint64(at), uint64(len(message))))
	if err != nil {
		return err
	}
	copy(to, message)
	w.ep.Leave()
	return nil
}

// Open says whether the answer to what was sent at a place is to come: of a message that
// was sent again another one may be.
func (l *Link) Open(slot, leaf int) bool {
	if l.again == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.again.kept[l.place(slot, leaf)].open
}

// Repeat answers a leaf of a step that was answered before, and says whether it was.
func (l *Link) Repeat(slot, leaf int, step uint64) bool {
	if l.again == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.place(slot, leaf)
	if k := &l.again.kept[p]; !k.sent || k.head.Step != step {
		return false
	}
	l.resend(p)
	return true
}

// Answered says whether a leaf of a step, or of a later one, was answered.
func (l *Link) Answered(slot, leaf int, step uint64) bool {
	if l.again == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.again.kept[l.place(slot, leaf)]
	return k.sent && k.head.Step >= step
}

// admits says whether an arrival is one that the owner waits for.
func (l *Link) admits(a *Arrival, place int) bool {
	if l.again == nil || !l.lower {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.again.kept[place]
	if !k.sent || k.head.Step != a.Head.Step {
		return false
	}
	k.open = false
	if k.taken {
		return false
	}
	k.taken = true
	return true
}

// install makes a wire the link's; the lower rank sends again what the upper one lacks:
// all since step from, and what it has not answered.
func (l *Link) install(w *wire, from uint64) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wire != nil && l.wire != w {
		l.dropNow(l.wire, errors.New("it has come again"))
	}
	l.wire, l.cause, l.reason = w, nil, w.conn.Reason
	first, l.claimed = !l.claimed, true
	if l.again == nil || !l.lower {
		return first
	}
	var places []int
	for p := range l.again.kept {
		k := &l.again.kept[p]
		if k.open = k.sent && (k.head.Step >= from || !k.taken); k.open {
			places = append(places, p)
		}
	}
	slices.SortStableFunc(places, func(a, b int) int {
		return int(int64(l.again.kept[a].head.Step) - int64(l.again.kept[b].head.Step))
	})
	for _, p := range places {
		l.resend(p)
	}
	return first
}

// drop lets go of a wire whose peer is gone.
func (l *Link) drop(w *wire, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropNow(w, cause)
}

// dropNow is drop, with mu. The memory stays for two more Polls: what came there may be in
// use.
func (l *Link) dropNow(w *wire, cause error) {
	if l.wire != w {
		return
	}
	l.wire, l.cause, l.since = nil, cause, time.Now()
	_ = w.conn.Close() // with mu: nothing is stored in mapped memory meanwhile
	h := l.hub
	h.mu.Lock()
	delete(h.wires, w.id)
	h.retired = append(h.retired, w)
	h.mu.Unlock()
	h.mux.Wake()
}

// failed is what an error of an endpoint is to a link: where it is made again, the loss
// of a connection. With mu.
func (l *Link) failed(err error) error {
	if l.again != nil {
		return err
	}
	return l.failNow(err)
}

// sweep closes wires that were dropped before the last Poll, and tells of those since.
func (h *Hub) sweep() {
	for _, w := range h.closing {
		w.close()
	}
	h.mu.Lock()
	h.closing, h.retired = h.retired, nil
	h.mu.Unlock()
}

// Dropped says whether an arrival came over a connection that was lost before the last
// Poll: it is not valid after the next one. It comes again, if it has not already.
func (h *Hub) Dropped(a *Arrival) bool {
	return slices.ContainsFunc(h.closing, func(w *wire) bool { return w.id == a.wire })
}

// redial reaches who takes an upper rank's place.
func (h *Hub) redial(l *Link, cause error) (*wire, error) {
	for end := time.Now().Add(h.opt.Again.For); ; {
		ctx, cancel := context.WithTimeout(h.ctx, h.opt.Silence)
		addr, err := h.opt.Again.Where(ctx, l.Number)
		var w *wire
		if err == nil {
			w, err = h.connect(ctx, addr, l)
		}
		cancel()
		switch {
		case err == nil:
			return w, nil
		case h.ctx.Err() != nil:
			return nil, h.ctx.Err()
		case time.Now().After(end):
			return nil, fmt.Errorf("%w; nobody has taken its place within %v: %w", cause, h.opt.Again.For, err)
		}
		select {
		case <-h.ctx.Done():
		case <-time.After(lookAgain):
		}
	}
}
