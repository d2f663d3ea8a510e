package ring

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/nccl/coll"
	"psrt/nccl/colltest"
	"psrt/rdma/dial"
)

func counting(g *Group, calls int) error { return colltest.Counting(g, calls, patience) }

func everyone(groups []*Group, f func(i int, g *Group) error) []error {
	errs := make([]error, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() { errs[i] = f(i, g) })
	}
	wg.Wait()
	return errs
}

// A rank that dies in the middle of calls is named by all others; those go on in a
// group without it, and then in one with the process that took its place.
func TestRebuiltAfterADeath(t *testing.T) {
	rng := seedtest.Rand(t)
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			var processes []*process
			for range 4 {
				processes = append(processes, newProcess(t, transport, Options{Node: -1}))
			}
			victim, after := rng.IntN(4), rng.IntN(20)
			groups := join(t, processes, 1)
			errs := everyone(groups, func(i int, g *Group) error {
				if i != victim {
					return counting(g, 1<<30)
				}
				err := counting(g, after) // closes g in order, as the kernel does not:
				processes[i].end()
				return err
			})
			for i, err := range errs {
				var e *coll.RankError
				if i == victim && err != nil || i != victim && (!errors.As(err, &e) || e.Rank != victim) {
					t.Fatalf("rank %d: %v; rank %d has ended after %d calls", i, err, victim, after)
				}
			}
			survivors := append(append([]*process{}, processes[:victim]...), processes[victim+1:]...)
			for i, err := range everyone(join(t, survivors, 2), func(_ int, g *Group) error { return counting(g, 5) }) {
				if err != nil {
					t.Fatalf("rank %d of the survivors: %v", i, err)
				}
			}
			processes[victim] = newProcess(t, transport, Options{Node: -1})
			for i, err := range everyone(join(t, processes, 3), func(_ int, g *Group) error { return counting(g, 5) }) {
				if err != nil {
					t.Fatalf("rank %d of the whole again: %v", i, err)
				}
			}
		})
	}
}

// Who has heard from another whom to blame says it to a third before it leaves, which
// would take it for the culprit else.
func TestVerdictIsPassedOn(t *testing.T) {
	groups := join(t, []*process{newProcess(t, "tcp", Options{Node: -1}), newProcess(t, "tcp", Options{Node: -1}), newProcess(t, "tcp", Options{Node: -1})}, 1)
	waits := make(chan error, 1)
	go func() { waits <- counting(groups[2], 1<<30) }()
	groups[1].setVerdict(&coll.RankError{Rank: 0, Fault: coll.Gone, Cause: errors.New("as rank 0's neighbour says")})
	if err := groups[1].Close(); err != nil {
		t.Error(err)
	}
	var e *coll.RankError
	if err := <-waits; !errors.As(err, &e) || e.Rank != 0 {
		t.Errorf("%v: want rank 0 blamed", err)
	}
	if err := groups[0].Close(); err != nil {
		t.Error(err)
	}
}

func TestEpochsGoForward(t *testing.T) {
	p := newProcess(t, "shm", Options{Node: -1})
	for _, g := range join(t, []*process{p}, 2) {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, epoch := range []uint64{1, 2} {
		if _, err := p.member.Join(t.Context(), Place{Size: 1, Epoch: epoch}, nil); err == nil {
			t.Errorf("epoch %d was joined after 2", epoch)
		}
	}
	for _, place := range []Place{{Size: 0, Epoch: 3}, {Rank: 2, Size: 2, Epoch: 3}, {Size: 2, Epoch: 3, Order: []coll.Merge{{Dst: 1, Src: 0}}}} {
		if _, err := p.member.Join(t.Context(), place, nil); err == nil {
			t.Errorf("%+v was joined", place)
		}
	}
}

// Ranks that do not fit together learn it at once, on both sides: whoever is refused for
// good does not dial again.
func TestRefusedForGood(t *testing.T) {
	for want, places := range map[string][2]Place{
		"names other hosts":                 {{Rank: 0, Size: 2, Epoch: 1, Hosts: []string{"a", "a"}}, {Rank: 1, Size: 2, Epoch: 1, Hosts: []string{"a", "b"}}},
		"it takes this one for rank 0 of 2": {{Rank: 0, Size: 3, Epoch: 1}, {Rank: 1, Size: 2, Epoch: 1}},
	} {
		a, b := newProcess(t, "tcp", Options{Node: -1}), newProcess(t, "tcp", Options{Node: -1})
		all := []*process{a, b, b} // of three the last never comes
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		errs := make([]error, 2)
		var joining sync.WaitGroup
		for i, place := range places {
			joining.Go(func() { _, errs[i] = all[i].join(ctx, place, all) })
		}
		joining.Wait()
		for i, err := range errs {
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d: %v (%v), want %q", i, err, ctx.Err(), want)
			}
		}
	}
	p := newProcess(t, "tcp", Options{Node: -1})
	for v, final := range map[int]bool{version: false, version + 1: true} {
		word, err := json.Marshal(hello{Version: v, Name: "another", Epoch: 1, Size: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, _, err := p.host.Dial(ctx, p.member.Addr(), word, 0, nil); !errors.Is(err, dial.ErrRefused) || errors.Is(err, dial.ErrFinal) != final {
			t.Errorf("version %d: %v, want it final: %v", v, err, final)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Timeout: -1}, {EagerBytes: -1}, {EagerBytes: 1 << 30}, {ChunkBytes: 5}, {LandingBytes: 1}, {Node: -2}} {
		if _, err := o.complete(); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
