package tcp

import (
	"testing"
	"time"
)

func TestLivenessRule(t *testing.T) {
	const timeout = 8 * time.Second
	type tick struct {
		at, busy time.Duration
		heard    uint64
	}
	every := func(n int, f func(i int) tick) []tick {
		var ts []tick
		for i := 1; i <= n; i++ {
			ts = append(ts, f(i))
		}
		return ts
	}
	s := func(i int) time.Duration { return time.Duration(i) * time.Second }
	for _, c := range []struct {
		name  string
		ticks []tick
		dead  int // index of the tick that says so, -1 none
	}{
		{"idle", every(100, func(i int) tick { return tick{at: s(i)} }), -1},
		{"silent", every(9, func(i int) tick { return tick{at: s(i), busy: s(i)} }), 8},
		{"answers", every(100, func(i int) tick { return tick{s(i), s(i), uint64(i / 7)} }), -1},
		{"falls silent", every(30, func(i int) tick { return tick{s(i), s(i), uint64(min(i, 20))} }), 28},
		{"busy only lately", every(12, func(i int) tick { return tick{at: s(i), busy: max(s(i)-s(5), 0)} }), -1},
		{"we were stopped ourselves", []tick{{s(1), s(1), 0}, {s(1000), s(1000), 0}, {s(1001), s(1001), 0}, {s(1002), s(1002), 1}}, -1},
	} {
		var v liveness
		got := -1
		for i, x := range c.ticks {
			if v.dead(x.at, x.busy, x.heard, timeout) {
				got = i
				break
			}
		}
		if got != c.dead {
			t.Errorf("%s: dead at tick %d, want %d", c.name, got, c.dead)
		}
	}
}
