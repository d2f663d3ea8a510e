package heter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/heter"
)

// heirs is a link whose ends are replaced.
type heirs struct {
	t     *testing.T
	kind  string // of transport
	shape heter.Shape
	addr  atomic.Value // of the newest upper rank
	told  atomic.Value // what one has said that left
}

// host is one that can be closed before the test ends, as a dead process's is.
func (x *heirs) host() *dial.Host {
	h, err := dial.New(dial.Config{Transport: x.kind, Token: bytes.Repeat([]byte("k"), 32), Listen: "127.0.0.1:0"})
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { h.Close() })
	return h
}

func (x *heirs) upper(from uint64) *heter.Hub {
	opt := options("worker")
	opt.Again = &heter.Again{Generation: 1, For: time.Minute, From: map[int]uint64{0: from}}
	h := heter.New(x.host(), x.shape.Depth(), opt)
	x.t.Cleanup(func() { h.Close() })
	addr, err := h.Listen("127.0.0.1:0", map[int]heter.Shape{0: x.shape})
	if err != nil {
		x.t.Fatal(err)
	}
	x.addr.Store(addr)
	return h
}

func (x *heirs) lower(generation int, first uint64) (*heter.Hub, *heter.Link) {
	opt := options("dense rank")
	opt.Again = &heter.Again{Generation: generation, For: time.Minute, First: first,
		Where: func(context.Context, int) (string, error) { return x.addr.Load().(string), nil },
		Told: func(context.Context, int) (json.RawMessage, bool, error) {
			text, ok := x.told.Load().(string)
			return json.RawMessage(text), ok, nil
		}}
	h := heter.New(x.host(), x.shape.Depth(), opt)
	x.t.Cleanup(func() { h.Close() })
	l, err := h.Dial(x.t.Context(), x.addr.Load().(string), 0, 7, x.shape)
	if err != nil {
		x.t.Fatal(err)
	}
	return h, l
}

// send sends one leaf of a step, of floats that are its number.
func (x *heirs) send(l *heter.Link, step uint64) {
	slot := int(step) % x.shape.Slots
	floats := l.Room(slot, 0)[:3]
	for k := range floats {
		floats[k] = float32(step)
	}
	if err := l.Send(slot, 0, heter.Head{Kind: 1, Step: step, Floats: 3}); err != nil {
		x.t.Fatal(err)
	}
}

// comes waits for one message of a step and of these floats.
func (x *heirs) comes(h *heter.Hub, step uint64, want float32) heter.Arrival {
	x.t.Helper()
	got, err := take(h)
	if err != nil || len(got) != 1 || got[0].Head.Step != step || len(got[0].Floats) != 3 || got[0].Floats[2] != want {
		x.t.Fatalf("%v, %+v; want step %d of %v", err, got, step, want)
	}
	return got[0]
}

func (x *heirs) answer(a heter.Arrival, with float32) {
	room := a.Link.Room(a.Slot, a.Leaf)
	for k := range room[:3] {
		room[k] = with
	}
	if err := a.Link.Send(a.Slot, a.Leaf, a.Head); err != nil {
		x.t.Fatal(err)
	}
}

// TestUpperRankIsReplaced: who takes its place gets what it lacks, also what the one before
// had answered, and the lower rank gets each answer once.
func TestUpperRankIsReplaced(t *testing.T) {
	for _, kind := range []string{"shm", "tcp"} {
		t.Run(kind, func(t *testing.T) {
			x := &heirs{t: t, kind: kind, shape: heter.Shape{First: 0, Last: 1, Slots: 4, Floats: 8}}
			up := x.upper(0)
			low, l := x.lower(1, 0)
			for step := range uint64(3) {
				x.send(l, step)
				x.answer(x.comes(up, step, float32(step)), 10)
				x.comes(low, step, 10)
			}
			x.send(l, 3)
			x.comes(up, 3, 3)
			up.Close()
			up = x.upper(2) // it had not pushed step 2
			var came []heter.Arrival
			for len(came) < 2 {
				got, err := take(up)
				if err != nil {
					t.Fatal(err)
				}
				came = append(came, got...)
			}
			for i, a := range came {
				if step := uint64(2 + i); a.Head.Step != step || a.Floats[2] != float32(step) {
					t.Fatalf("%+v; want step %d", a, step)
				}
				x.answer(a, 20)
			}
			x.comes(low, 3, 20) // of step 2 the answer is not given twice
			for end := time.Now().Add(time.Minute); l.Open(2, 0); {
				if got, err := low.Poll(); err != nil || len(got) > 0 || time.Now().After(end) {
					t.Fatalf("%v, %+v", err, got)
				}
			}
			up.Close()
			x.told.Store(`{"busy":1}`)
			said, err := low.Bye(t.Context())
			if err != nil || string(said[7]) != `{"busy":1}` {
				t.Errorf("of one that had left: %s, %v", said[7], err)
			}
		})
	}
}

// TestLowerRankIsReplaced: what was answered is answered again, and not given to the owner
// twice; a process that has lost its number is refused.
func TestLowerRankIsReplaced(t *testing.T) {
	for _, kind := range []string{"shm", "tcp"} {
		t.Run(kind, func(t *testing.T) {
			x := &heirs{t: t, kind: kind, shape: heter.Shape{First: 0, Last: 1, Slots: 4, Floats: 8}}
			up := x.upper(0)
			low, l := x.lower(1, 0)
			for step := range uint64(2) {
				x.send(l, step)
				x.answer(x.comes(up, step, float32(step)), 10+float32(step))
				x.comes(low, step, 10+float32(step))
			}
			low.Close()
			low, l = x.lower(2, 1)
			x.send(l, 1)
			a := x.comes(up, 1, 1)
			if !a.Link.Answered(a.Slot, a.Leaf, 1) || a.Link.Answered(a.Slot, a.Leaf, 2) || !a.Link.Repeat(a.Slot, a.Leaf, 1) || a.Link.Repeat(a.Slot, a.Leaf, 5) || a.Link.First() != 1 {
				t.Error("the upper rank does not know what it has answered")
			}
			x.comes(low, 1, 11)
			opt := options("dense rank")
			opt.Again = &heter.Again{Generation: 1, For: time.Nanosecond, Where: func(context.Context, int) (string, error) { return x.addr.Load().(string), nil }}
			old := heter.New(x.host(), x.shape.Depth(), opt)
			defer old.Close()
			if _, err := old.Dial(t.Context(), x.addr.Load().(string), 0, 7, x.shape); err == nil || !strings.Contains(err.Error(), "another process has the number") {
				t.Errorf("who had lost the number: %v", err)
			}
		})
	}
}

// TestDroppedByConnection: what a new connection brings is not dropped with the one before.
func TestDroppedByConnection(t *testing.T) {
	x := &heirs{t: t, kind: "tcp", shape: heter.Shape{First: 0, Last: 1, Slots: 2, Floats: 8}}
	up := x.upper(0)
	low, l := x.lower(1, 0)
	x.send(l, 0)
	old := x.comes(up, 0, 0)
	if up.Dropped(&old) {
		t.Error("dropped, and nobody has died")
	}
	low.Close()
	_, l = x.lower(2, 0)
	x.send(l, 0)
	dropped, came := false, 0
	for end := time.Now().Add(time.Minute); !dropped || came == 0; {
		got, err := up.Poll()
		if err == nil && len(got) == 0 {
			err = up.Wait(time.Now().Add(10 * time.Millisecond))
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("%v; the old is dropped: %v, %d new have come", err, dropped, came)
		}
		dropped = dropped || up.Dropped(&old)
		for i := range got {
			came++
			if up.Dropped(&got[i]) {
				t.Error("the new one is dropped")
			}
		}
	}
}

// TestNobodyComesAgain: the wait for an heir ends, and names who is missed.
func TestNobodyComesAgain(t *testing.T) {
	x := &heirs{t: t, kind: "shm", shape: heter.Shape{First: 0, Last: 1, Slots: 2, Floats: 8}}
	up := x.upper(0)
	opt := options("dense rank")
	opt.Again = &heter.Again{Generation: 1, For: 10 * time.Millisecond, Where: func(context.Context, int) (string, error) { return x.addr.Load().(string), nil }}
	low := heter.New(x.host(), x.shape.Depth(), opt)
	defer low.Close()
	if _, err := low.Dial(t.Context(), x.addr.Load().(string), 0, 7, x.shape); err != nil {
		t.Fatal(err)
	}
	up.Close()
	var lost *heter.LostError
	if _, err := take(low); !errors.As(err, &lost) || lost.Peer != "dense rank 7" {
		t.Errorf("%v", err)
	}
}
