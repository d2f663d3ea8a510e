package client

import (
	"context"
	"slices"
	"testing"
	"time"

	"psrt/sched/clock"
	"psrt/sched/compress"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// A worker that keeps rows back dies between its pushes of a step to two lanes. Who goes on
// chooses others to send: the lane that has the step gets nothing of it any more, now or
// later, the other one gets all.
func TestHeirKeepsNothingOfWhatALaneHas(t *testing.T) {
	spec := sumTable(1, 1)
	w := newWorld(t, worldConfig{transport: "tcp", servers: 2, lanes: 1, workers: 1, staleness: server.Async, tables: []table.Spec{spec}})
	open := func(generation int) (*Client, *Rows) {
		c, err := Open(t.Context(), Config{Generation: generation, Map: w.m, Host: w.host(), Timeout: time.Minute, Node: -1, Compress: compress.Choice{Code: compress.Top, Share: .5}, Even: true})
		must(t, err)
		t.Cleanup(c.Close)
		return c, w.rows(c, spec)
	}
	const n = 20
	var keys []uint64
	for k := range uint64(n) {
		keys = append(keys, k)
	}
	set := func(r *Rows, grad func(key uint64) float32) {
		plan(t, r, keys)
		for i, k := range r.keys[:r.n] {
			r.Grads()[i] = grad(k)
		}
	}
	rising := func(k uint64) float32 { return -float32(1 + k) }
	falling := func(k uint64) float32 { return -float32(100 - k) }

	c, r := open(1)
	set(r, rising)
	call := Call{what: psmsg.KindPush, inUse: &r.calls}
	c.lock()
	err := c.packRows(r, 0, &call)
	if err == nil {
		err = c.issue(part{call: &call, kind: psmsg.KindPush, rows: r, lane: 0, flags: psmsg.FlagTick, seq: c.nextSeq(0)})
	}
	c.unlock()
	must(t, err)
	must(t, c.Wait(&call))
	c.Close()

	heir, h := open(2)
	from := uint64(clock.None)
	for i, s := range heir.Standing() {
		from = min(from, s.At)
		if want := uint64(2 - i); s.Last != want { // one of what was kept, and one of the step
			t.Fatalf("lane %d has %d pushes, want %d", i, s.Last, want)
		}
	}
	if from != 0 {
		t.Fatalf("it goes on in step %d", from)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, heir.GoOn(ctx, 0, func(int) uint64 { return 0 }))
	set(h, falling)
	push(t, heir, h, 0)
	heir.SendAll(true)
	plan(t, h, nil)
	push(t, heir, h, 1)
	plan(t, h, keys)
	pull(t, heir, h, 2, 0)
	for lane := range heir.lanes {
		of := slices.Clone(h.keys[h.laneOff[lane]:h.laneOff[lane+1]])
		if len(of) < 4 {
			t.Fatalf("lane %d has %d keys: this shows nothing", lane, len(of))
		}
		for i, k := range of {
			want := -falling(k)
			if lane == 0 {
				if want = -rising(k); k < n/2 { // kept by who died
					want = 0
				}
			}
			if got := h.Values()[h.laneOff[lane]+i]; got != want {
				t.Errorf("lane %d, key %d: %g, want %g", lane, k, got, want)
			}
		}
	}
}
