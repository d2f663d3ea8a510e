package heter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma/dial"
	"psrt/rdma/invariant"
	"psrt/sched/heter"
)

func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }

func host(t *testing.T, transport string) *dial.Host {
	t.Helper()
	h, err := dial.New(dial.Config{Transport: transport, Token: bytes.Repeat([]byte("k"), 32), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func options(peers string) heter.Options {
	return heter.Options{Node: -1, PeerKind: peers, Timeout: time.Minute, Silence: time.Minute}
}

// world is one upper rank and some lower ones that have leaves of it.
type world struct {
	upper  *heter.Hub
	lowers []*heter.Hub
	links  []*heter.Link
}

func newWorld(t *testing.T, transport string, shapes ...heter.Shape) *world {
	t.Helper()
	w := &world{}
	depth, expected := 0, map[int]heter.Shape{}
	for i, s := range shapes {
		depth += s.Depth()
		expected[i] = s
	}
	w.upper = heter.New(host(t, transport), depth, options("worker"))
	t.Cleanup(func() { w.upper.Close() })
	addr, err := w.upper.Listen("127.0.0.1:0", expected)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range shapes {
		h := heter.New(host(t, transport), s.Depth(), options("dense rank"))
		t.Cleanup(func() { h.Close() })
		l, err := h.Dial(t.Context(), addr, i, 7, s)
		if err != nil {
			t.Fatal(err)
		}
		w.lowers, w.links = append(w.lowers, h), append(w.links, l)
	}
	if err := w.upper.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// take waits for messages.
func take(h *heter.Hub) ([]heter.Arrival, error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		got, err := h.Poll()
		if err != nil || len(got) > 0 {
			return got, err
		}
		if err := h.Wait(time.Now().Add(10 * time.Millisecond)); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("nothing came for a minute")
}

// TestLeavesGoUpAndDown: of several lower ranks, every float of every leaf of every slot
// arrives where it should, at any length, and what comes back is the answer to it.
func TestLeavesGoUpAndDown(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			rng := seedtest.Rand(t)
			const most, steps = 700_000, 6 // 2.8 MB: several requests
			w := newWorld(t, transport, heter.Shape{First: 0, Last: 3, Slots: 2, Floats: most}, heter.Shape{First: 3, Last: 4, Slots: 2, Floats: most})
			upper := make(chan error, 1)
			go func() { upper <- echo(w.upper) }()
			for step := range uint64(steps) {
				want := map[int][]float32{}
				for _, l := range w.links {
					for leaf := l.Shape.First; leaf < l.Shape.Last; leaf++ {
						n := []int{0, 1, most, rng.IntN(most)}[rng.IntN(4)]
						floats := l.Room(int(step%2), leaf)[:n]
						for k := range floats {
							floats[k] = float32(rng.IntN(1 << 20))
						}
						want[leaf] = slices.Clone(floats)
						h := heter.Head{Kind: 1, Examples: uint32(leaf), Step: step, Floats: uint32(n)}
						if err := l.Send(int(step%2), leaf, h); err != nil {
							t.Fatal(err)
						}
					}
				}
				for i, h := range w.lowers {
					for left := w.links[i].Shape.Leaves(); left > 0; {
						got, err := take(h)
						if err != nil {
							t.Fatal(err)
						}
						for _, a := range got {
							left--
							if a.Head.Step != step || a.Slot != int(step%2) || len(a.Floats) != len(want[a.Leaf]) {
								t.Fatalf("step %d: leaf %d of slot %d came with %d floats of step %d, want %d", step, a.Leaf, a.Slot, len(a.Floats), a.Head.Step, len(want[a.Leaf]))
							}
							for k, x := range a.Floats {
								if x != -want[a.Leaf][k]-float32(a.Leaf) {
									t.Fatalf("step %d, leaf %d: float %d is %v, sent %v", step, a.Leaf, k, x, want[a.Leaf][k])
								}
							}
						}
					}
				}
			}
			for _, h := range w.lowers {
				go h.Bye(t.Context())
			}
			if err := <-upper; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// echo answers every leaf by its floats, negated, less the leaf's number.
func echo(h *heter.Hub) error {
	for !h.Over() {
		got, err := h.Poll()
		if err != nil {
			return err
		}
		for _, a := range got {
			room := a.Link.Room(a.Slot, a.Leaf)
			for k, x := range a.Floats {
				room[k] = -x - float32(a.Leaf)
			}
			if err := a.Link.Send(a.Slot, a.Leaf, a.Head); err != nil {
				return err
			}
		}
		if err := h.Wait(time.Now().Add(10 * time.Millisecond)); err != nil {
			return err
		}
	}
	return h.Finish("done")
}

// TestByeHasTheReport: the report comes when all lower ranks have said bye.
func TestByeHasTheReport(t *testing.T) {
	s := heter.Shape{First: 0, Last: 1, Slots: 1, Floats: 8}
	w := newWorld(t, "shm", s, heter.Shape{First: 1, Last: 2, Slots: 1, Floats: 8})
	said := make(chan string, 2)
	for _, h := range w.lowers {
		go func() {
			r, err := h.Bye(t.Context())
			said <- fmt.Sprint(string(r[7]), err)
			h.Close()
		}()
	}
	for !w.upper.Over() {
		time.Sleep(time.Millisecond)
	}
	select {
	case s := <-said:
		t.Fatalf("a bye was answered before the upper rank had finished: %s", s)
	default:
	}
	if err := w.upper.Finish(map[string]int{"leaves": 2}); err != nil {
		t.Fatal(err)
	}
	for range w.lowers {
		if s := <-said; s != `{"leaves":2}<nil>` {
			t.Errorf("a lower rank got %s", s)
		}
	}
	if err := w.upper.Farewell(time.Minute); err != nil {
		t.Error(err)
	}
}

// TestFlushWaits: it ends when the upper rank says so, and not before.
func TestFlushWaits(t *testing.T) {
	w := newWorld(t, "shm", heter.Shape{First: 0, Last: 1, Slots: 1, Floats: 8})
	flushed := make(chan error, 1)
	go func() { flushed <- w.lowers[0].Flush(t.Context(), 7) }()
	var asked []heter.Flushing
	for asked = w.upper.Flushes(); len(asked) == 0; asked = w.upper.Flushes() {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-flushed:
		t.Fatalf("a flush was over before the upper rank had said so: %v", err)
	default:
	}
	close(asked[0].Done)
	if err := <-flushed; err != nil || len(asked) != 1 || asked[0].Step != 7 || asked[0].Link.Number != 0 || len(w.upper.Flushes()) != 0 {
		t.Errorf("%v, asked %+v", err, asked)
	}
}

// TestDeathIsNamed: either end learns that the other is gone, and its name.
func TestDeathIsNamed(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			s := heter.Shape{First: 0, Last: 2, Slots: 1, Floats: 8}
			var lost *heter.LostError
			w := newWorld(t, transport, s)
			w.upper.Close()
			if _, err := take(w.lowers[0]); !errors.As(err, &lost) || lost.Peer != "dense rank 7" {
				t.Errorf("the lower rank: %v", err)
			}
			w = newWorld(t, transport, s)
			w.lowers[0].Close()
			if _, err := take(w.upper); !errors.As(err, &lost) || lost.Peer != "worker 0" {
				t.Errorf("the upper rank: %v", err)
			}
		})
	}
}

// TestStrangersAreRefused: who is not expected, or has other leaves, is told so.
func TestStrangersAreRefused(t *testing.T) {
	s := heter.Shape{First: 0, Last: 2, Slots: 1, Floats: 8}
	up := heter.New(host(t, "shm"), s.Depth(), options("worker"))
	defer up.Close()
	addr, err := up.Listen("127.0.0.1:0", map[int]heter.Shape{3: s})
	if err != nil {
		t.Fatal(err)
	}
	other := s
	other.Last = 3
	for _, x := range []struct {
		from  int
		shape heter.Shape
	}{{2, s}, {3, other}, {3, heter.Shape{First: 0, Last: 0, Slots: 1, Floats: 8}}} {
		h := heter.New(host(t, "shm"), 64, options("dense rank"))
		if _, err := h.Dial(t.Context(), addr, x.from, 0, x.shape); err == nil {
			t.Errorf("worker %d with %+v was let in", x.from, x.shape)
		}
		h.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := up.Ready(ctx); err == nil || !strings.Contains(err.Error(), "worker 3 has not come") {
		t.Errorf("who has not come: %v", err)
	}
}
