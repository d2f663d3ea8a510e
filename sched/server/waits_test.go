package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/sched/stall"
)

// What waits at the barrier are told for whom; a worker that is not inside waits for
// nobody.
func TestWaitsAtTheBarrier(t *testing.T) {
	var b barrier
	cfg := Config{ID: 4, Workers: 3, Name: func(member int) string {
		if member == 2 {
			return "dense rank 0"
		}
		return fmt.Sprint("worker ", member)
	}}
	over := make(chan bool)
	all := func() int { return 3 }
	go func() { over <- b.wait(t.Context(), 2, all, time.Minute).All }()
	go func() { over <- b.wait(t.Context(), 0, all, time.Minute).All }()
	inside := func(n int) {
		for {
			b.mu.Lock()
			there := len(b.inside)
			b.mu.Unlock()
			if there == n {
				return
			}
		}
	}
	inside(2)
	now := time.Now().Add(12 * time.Second)
	for worker, told := range map[int]bool{-1: true, 0: true, 2: true, 1: false} {
		w := b.waits(&cfg, worker, now, 10*time.Second)
		if (len(w) == 1) != told {
			t.Errorf("worker %d: %+v", worker, w)
		}
		if told && (w[0].Who != "server 4" || w[0].On != "1 more workers and dense ranks" || w[0].Kind != stall.Barrier || w[0].What != "inside are dense rank 0, worker 0" || w[0].Seconds < 12) {
			t.Errorf("%+v", w)
		}
	}
	if w := b.waits(&cfg, -1, now, time.Hour); w != nil {
		t.Errorf("%+v", w)
	}
	plain := Config{Workers: 3, Name: func(member int) string { return fmt.Sprint("worker ", member) }}
	if w := b.waits(&plain, -1, now, 0); len(w) != 1 || w[0].On != "1 more workers" {
		t.Errorf("%+v", w)
	}
	b.wait(t.Context(), 1, all, time.Minute)
	for range 2 {
		if !<-over {
			t.Error("not all came")
		}
	}
	if w := b.waits(&cfg, -1, now, 0); w != nil {
		t.Errorf("%+v", w)
	}
}

// A lane that does not answer is told from when it was first asked, and one that has
// ended waits for nobody.
func TestALaneThatDoesNotAnswer(t *testing.T) {
	l := &lane{cfg: &Config{ID: 3}, index: 1, cmds: make(chan func()), gone: make(chan struct{})}
	var d deaf
	if w := d.ask(l, -1, time.Hour); w != nil {
		t.Errorf("at the first question: %+v", w)
	}
	d.since[l] = d.since[l].Add(-2 * time.Hour)
	w := d.ask(l, -1, time.Hour)
	if len(w) != 1 || w[0].Who != "server 3 lane 1" || w[0].Kind != stall.Busy || w[0].Seconds < 7200 {
		t.Errorf("%+v", w)
	}
	close(l.gone)
	if w := d.ask(l, -1, 0); w != nil || len(d.since) != 0 {
		t.Errorf("of a lane that has ended: %+v", w)
	}
}

// A lease that has run out names those for want of whose word it has.
func TestLeaseNamesWhoIsSilent(t *testing.T) {
	c := &chained{cfg: &ChainConfig{}}
	if got := c.unheard(); got != ": it has not heard of enough servers lately" {
		t.Error(got)
	}
	c.cfg.Unheard = func() string { return "nothing was heard of server 2 for 12.1 s" }
	if got := c.unheard(); got != ": nothing was heard of server 2 for 12.1 s" {
		t.Error(got)
	}
	away := time.Duration(0)
	c.cfg.StoreAway = func() time.Duration { return away }
	if got := c.noStore(); got != "" {
		t.Error(got)
	}
	away = 1500 * time.Millisecond
	if got := c.noStore(); !strings.HasPrefix(got, "; the coordinator is away since 1.5 s") {
		t.Error(got)
	}
}

// Who waits here, and is not the furthest behind, is no cause.
func TestCauses(t *testing.T) {
	at := map[int]uint64{0: 53, 1: 52, 2: 53, 3: 54}
	for _, c := range []struct {
		name          string
		workers, here []int
		want          []int
	}{
		{"a dead one, and two that wait for it", []int{0, 1, 2}, []int{0, 2}, []int{1}},
		{"a dead one, and one that computes", []int{0, 1, 2}, []int{0}, []int{1, 2}},
		{"all wait, the last for its own rows", []int{0, 1, 2}, []int{0, 1, 2}, []int{1}},
		{"equals", []int{0, 2}, []int{0, 2}, []int{0, 2}},
		{"one", []int{3}, []int{3}, []int{3}},
	} {
		got := causes(c.workers, func(w int) uint64 { return at[w] }, func(w int) bool { return slices.Contains(c.here, w) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
