package server

import (
	"fmt"
	"slices"
	"testing"

	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// merged is how many pushes a replica has added to others before it applied them.
func merged(t *testing.T, s *Server) (n uint64) {
	must(t, s.lanes[0].do(patience, func() { n = s.lanes[0].stats.merged }))
	return n
}

// Small pushes that have come to the head by the time it looks are added, and applied
// once, by all members alike; each is answered with what that led to.
func TestChainMerges(t *testing.T) {
	spec := sgdTable()
	spec.Optimizer = table.Optimizer{Kind: table.Adam, LR: 0.1}
	for _, staleness := range []int{2, Async} {
		t.Run(fmt.Sprint("staleness ", staleness), func(t *testing.T) {
			const workers = 4
			w := newChainWorld(t, chainWorldConfig{transport: "shm", groups: 1, workers: workers, staleness: staleness, tables: []table.Spec{spec}, dense: 5}, 3, []int{0, 1, 2})
			keys := w.keysOf(0, 10)
			var all []*chainWorker
			for n := range workers {
				k := w.worker(n, 1)
				k.push(0, 0, keys, 1, false)
				all = append(all, k)
			}
			head := w.nodes[0]
			w.until("pushes are added", func() bool {
				before := merged(t, head.servers[0])
				head.freeze(0)
				for _, k := range all {
					r, err := k.at(0)
					must(t, err)
					k.seq[0]++
					req := r.push(0, k.seq[0], 0, len(keys))
					req.Flags = 0
					req.Keys, req.Values = r.putRows(0, keys, float32(k.number+1), testDim)
					r.send(req)
				}
				head.thaw(0)
				var versions []uint64
				for _, k := range all {
					rep, ok := k.raws[0].wait(patience)
					if !ok || rep.Code != psmsg.CodeOK {
						t.Fatalf("worker %d is answered %v, %v", k.number, rep.Code, ok)
					}
					versions = append(versions, rep.Version)
				}
				n := merged(t, head.servers[0]) - before
				slices.Sort(versions)
				if distinct := len(slices.Compact(versions)); distinct != workers-int(n) || versions[0] == 0 {
					t.Errorf("%d pushes of %d were added to others, and %d versions told: %v", n, workers, distinct, versions)
				}
				return n == workers-1
			})
			w.alike()
			for i, s := range w.members(0) {
				if got, want := merged(t, s), merged(t, head.servers[0]); got != want {
					t.Errorf("replica %d has added %d pushes, the head %d", i, got, want)
				}
			}
		})
	}
}

// Replicas that join, and heads that die, in the middle of runs are like the others, bit
// for bit.
func TestChainRuns(t *testing.T) {
	steps, faults := howLong(10, 8)
	spec := sgdTable()
	spec.Init, spec.Optimizer = table.Init{Kind: table.InitUniform, Scale: 0.1}, table.Optimizer{Kind: table.Adam, LR: 0.1}
	chainRun(t, chainWorldConfig{transport: "shm", groups: 1, workers: 6, staleness: Async, tables: []table.Spec{spec}, rows: 120, dense: 5,
		options: chain.Options{ChunkBytes: 512, FeedBytes: 4096}}, steps, faults)
}

// One answer does for all that a turn has brought.
func TestOutdated(t *testing.T) {
	a, b := chain.Node{Server: 1}, chain.Node{Server: 2}
	all := []chain.Message{{Kind: chain.Ack, To: a, Seq: 1}, {Kind: chain.Data, To: b, Seq: 1}, {Kind: chain.Fed, To: a, Seq: 1}, {Kind: chain.Ack, To: b, Seq: 1},
		{Kind: chain.Ack, To: a, Seq: 2}, {Kind: chain.Data, To: b, Seq: 2}, {Kind: chain.Fed, To: a, Seq: 2}, {Kind: chain.Ack, To: a, Epoch: 1}}
	want := []bool{true, false, true, false, false, false, false, false}
	for i := range all {
		if got := outdated(&all[i], all[i+1:]); got != want[i] {
			t.Errorf("message %d (%v): %v", i, all[i], got)
		}
	}
}
