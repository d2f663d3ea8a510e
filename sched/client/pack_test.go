package client

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/compress"
	"psrt/sched/densemap"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

func adagrad(dim int) table.Spec {
	return table.Spec{Name: "rows", ID: 2, Dim: dim, Init: table.Init{Kind: "uniform", Scale: .1}, Optimizer: table.Optimizer{Kind: table.AdaGrad, LR: .1, Eps: 1e-8}}
}

// openPacking opens a client that compresses.
func (w *world) openPacking(worker int, choice compress.Choice, protocol int) *Client {
	w.t.Helper()
	c, err := Open(context.Background(), Config{Worker: worker, Map: w.m, Host: w.host(), Timeout: time.Minute, Node: -1, Compress: choice, protocol: protocol})
	must(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

type packing struct {
	workers  int
	rounds   uint64
	spec     table.Spec
	choice   compress.Choice
	protocol int
	breaks   bool
	older    bool // what breaks is back as one of before PackedSince, for the rest of the step
	keyed    bool // no tickets
	whole    bool
}

// train has workers push gradients that depend on the seed alone.
func (p *packing) train(t *testing.T, w *world) (stats []CompressStats) {
	stats = make([]CompressStats, p.workers)
	plain := make([]int, p.workers)
	var all sync.WaitGroup
	for id := range p.workers {
		c := w.openPacking(id, p.choice, p.protocol)
		rows := w.rows(c, p.spec)
		dense, err := c.NewDense(w.config.dense, 1)
		must(t, err)
		t.Cleanup(dense.Close)
		dense.Cut([]densemap.Block{{Len: w.config.dense, Rule: "grad"}})
		rng := rand.New(rand.NewPCG(7, uint64(id)))
		chaos := rand.New(rand.NewPCG(8, uint64(id)))
		all.Go(func() {
			for round := range p.rounds {
				var keys []uint64
				for _, k := range rng.Perm(900)[:200+rng.IntN(300)] {
					keys = append(keys, uint64(k)*0x9e3779b97f4a7c15)
				}
				index := plan(t, rows, keys)
				pull(t, c, rows, round, 0)
				if p.keyed {
					clear(rows.tickets)
				}
				c.SendAll(round == p.rounds-1)
				width := p.spec.PushFloats()
				for _, at := range index {
					size := math.Ldexp(1, -rng.IntN(30))
					if p.whole {
						size = 1 // sums are exact
					}
					for j := range width {
						rows.Grads()[int(at)*width+j] = float32(math.Round(rng.NormFloat64()*32) * size)
					}
				}
				for i := range dense.Grads() {
					dense.Grads()[i] = float32(math.Round(rng.NormFloat64() * 32))
				}
				var a, b Call
				must(t, c.PushDense(dense, round, rng.IntN(9) > 0, &a))
				must(t, c.Push(rows, round, true, &b))
				if p.older {
					c.cfg.protocol = psmsg.PackedSince - 1
				}
				if p.breaks && (p.older || chaos.IntN(3) == 0) {
					c.servers[chaos.IntN(len(c.servers))].conn.Close()
				}
				must(t, c.Wait(&a))
				must(t, c.Wait(&b))
				if c.cfg.protocol = p.protocol; p.older && !c.packs() {
					plain[id]++
					for _, s := range c.servers {
						s.conn.Close()
					}
				}
			}
			stats[id] = c.Compressed()
		})
	}
	all.Wait()
	if p.older && slices.Max(plain) == 0 {
		t.Error("nothing was sent again to an older server")
	}
	return stats
}

var packings = []compress.Choice{{Code: compress.Half}, {Code: compress.Byte}, {Code: compress.Top, Share: .1}}

// A model that was trained with compression is the same, bit for bit, over any number of
// servers, any transport, by ticket or keys, and whatever connections broke: also where
// those that are made in their place know of no compression; of topk, which there makes one
// step of the sum of several (psmsg.TimesSince), by a rule to which that is the same.
func TestPackedDigest(t *testing.T) {
	for _, choice := range packings {
		t.Run(choice.String(), func(t *testing.T) {
			wants := map[string]table.Digest{}
			for _, c := range []struct {
				transport     string
				servers       int
				breaks, keyed bool
				older         bool
			}{{"tcp", 1, false, false, false}, {"tcp", 1, false, false, true}, {"tcp", 3, true, false, false}, {"shm", 3, false, true, false}, {"shm", 1, true, false, false}, {"tcp" + grants, 2, false, true, false}, {"tcp" + late, 2, true, false, false},
				{"tcp" + late, 2, true, false, true}, {"shm" + late, 2, true, true, true}} {
				p := packing{workers: 2, rounds: 5, spec: adagrad(9), choice: choice, breaks: c.breaks, older: c.older && c.breaks, keyed: c.keyed}
				if c.older && choice.Code == compress.Top {
					p.spec.Optimizer = table.Optimizer{Kind: table.SGD, LR: .1}
				}
				w := newWorld(t, worldConfig{transport: c.transport, servers: c.servers, lanes: 2, workers: p.workers, tables: []table.Spec{p.spec}, dense: 3000})
				stats := p.train(t, w)
				if s := stats[0]; s.PackedBytes == 0 || s.PackedBytes > s.FloatBytes*2/3 || s.KeptRows != 0 {
					t.Errorf("%+v: %+v", c, s)
				}
				rule := p.spec.Optimizer.Kind
				if d := w.digest(); wants[rule] == (table.Digest{}) {
					wants[rule] = d
				} else if d != wants[rule] {
					t.Errorf("%+v: another model than over one server by tcp", c)
				}
			}
		})
	}
}

// With topk, or several steps merged, all that was given is applied in the end, also where
// connections break: the sums are those of a run without it.
func TestKeptLosesNothing(t *testing.T) {
	var sums []table.Digest
	for i, choice := range []compress.Choice{{}, {Code: compress.Top, Share: .05}, {Merge: 3}, {Merge: 8}, {Merge: 4, MergeAuto: true}, {Merge: 3}} {
		p := packing{workers: 2, rounds: 10, spec: sumTable(2, 4), choice: choice, whole: true, breaks: i == 5, keyed: i == 3}
		w := newWorld(t, worldConfig{transport: "tcp", servers: 2, lanes: 1, workers: 2, tables: []table.Spec{p.spec}, dense: 500})
		stats := p.train(t, w)
		if late := stats[0].LateRows; (late > 0) != (choice.On() && !choice.MergeAuto) || stats[0].KeptRows > 0 {
			t.Errorf("%+v: %+v", choice, stats[0])
		}
		if m := stats[0].Merge; (m != nil) != (choice.Merge > 1) || m != nil && (m.Merged > 0 && m.Rows > 0) == choice.MergeAuto {
			t.Errorf("%+v: %+v", choice, m)
		}
		if sums = append(sums, w.digest()); sums[i] != sums[0] {
			t.Errorf("%+v: other sums", choice)
		}
	}
}

// Servers of the release before are sent gradients as they are.
func TestPackedToOlder(t *testing.T) {
	var sums []table.Digest
	for _, choice := range append([]compress.Choice{{}}, packings...) {
		p := packing{workers: 1, rounds: 5, spec: sumTable(2, 4), choice: choice, protocol: psmsg.PackedSince - 1}
		w := newWorld(t, worldConfig{transport: "tcp", servers: 2, lanes: 1, workers: 1, tables: []table.Spec{p.spec}, dense: 500})
		if s := p.train(t, w)[0]; s.PackedBytes != s.FloatBytes {
			t.Errorf("%v: %+v", choice, s)
		}
		sums = append(sums, w.digest())
	}
	for i, s := range sums {
		if s != sums[0] {
			t.Errorf("%v: other sums", packings[i-1])
		}
	}
}

// What is not finite is refused as without compression: its row, and nothing else.
func TestPackedNotFinite(t *testing.T) {
	for _, choice := range packings {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			t.Run(fmt.Sprint(choice, bad), func(t *testing.T) {
				spec := sumTable(1, 20)
				w := newWorld(t, worldConfig{transport: "tcp", servers: 1, lanes: 1, workers: 1, staleness: server.Async, tables: []table.Spec{spec}})
				c := w.openPacking(0, choice, 0)
				r := w.rows(c, spec)
				index := plan(t, r, []uint64{5, 6, 7})
				pull(t, c, r, 0, 0)
				for i := range r.Grads() {
					r.Grads()[i] = 2
				}
				r.Grads()[20*index[1]+3] = float32(bad)
				c.SendAll(true)
				if call := push(t, c, r, 0); call.Refused != 1 {
					t.Errorf("%d rows were refused, want 1", call.Refused)
				}
				pull(t, c, r, 1, 0)
				for row, at := range index {
					want := float32(-2)
					if row == 1 {
						want = 0
					}
					if got := r.Values()[20*at]; math.Abs(float64(got-want)) > 1e-2 {
						t.Errorf("row %d is %v, want %v", row, got, want)
					}
				}
			})
		}
	}
}

// A row that is sent late does not leave its counts behind.
func TestPackedEmptyStep(t *testing.T) {
	spec := sumTable(1, 2)
	w := newWorld(t, worldConfig{transport: "tcp", servers: 2, lanes: 1, workers: 1, tables: []table.Spec{spec}})
	c := w.openPacking(0, packings[2], 0)
	r := w.rows(c, spec)
	rng := seedtest.Rand(t)
	sum := map[uint64]float32{}
	for step := range uint64(12) {
		var keys []uint64
		if step%4 != 3 {
			for _, k := range rng.Perm(40)[:rng.IntN(20)] {
				keys = append(keys, uint64(k))
			}
		}
		index := plan(t, r, keys)
		pull(t, c, r, step, 0)
		for i, at := range index {
			g := float32(rng.IntN(100))
			sum[keys[i]] -= g
			r.Grads()[2*at], r.Grads()[2*at+1] = g, g
		}
		c.SendAll(step == 11)
		push(t, c, r, step)
	}
	var keys []uint64
	for k := range sum {
		keys = append(keys, k)
	}
	index := plan(t, r, keys)
	pull(t, c, r, 12, 0)
	for i, at := range index {
		if got := r.Values()[2*at+1]; got != sum[keys[i]] {
			t.Errorf("key %d is %v, want %v", keys[i], got, sum[keys[i]])
		}
	}
}
