package server

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"psrt/rdma/mem"
	"psrt/sched/clock"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// pullDense reads the dense values of a group.
func (k *chainWorker) pullDense(group int, clock uint64) []float32 {
	k.w.t.Helper()
	rep, r := k.ask(group, func(r *raw) psmsg.Request {
		_, values := r.put(0, make([]uint64, (k.w.cfg.dense+testDim-1)/testDim), -7)
		return psmsg.Request{Kind: psmsg.KindPullDense, Clock: clock, Values: values.Slice(0, uint64(k.w.cfg.dense)*4)}
	})
	if rep.Code != psmsg.CodeOK {
		k.w.t.Errorf("a pull of dense values was answered %v", rep.Code)
	}
	k.version = rep.Version
	return slices.Clone(mem.Float32s(r.arena.Bytes()[rawValues : rawValues+k.w.cfg.dense*4]))
}

// pushPulled pushes by the ticket of a pull.
func (k *chainWorker) pushPulled(group int, clock uint64, keys []uint64, value float32) {
	k.w.t.Helper()
	rep, _ := k.ask(group, func(r *raw) psmsg.Request {
		req := r.pull(7, clock, len(keys))
		req.Keys, req.Values = r.put(7, keys, 0)
		req.Flags |= psmsg.FlagCreate
		return req
	})
	if rep.Ticket == 0 {
		k.w.t.Fatalf("a pull was answered %v, without a ticket", rep.Code)
	}
	code := k.send(group, true, func(r *raw, slot uint32, seq uint64) psmsg.Request {
		req := r.push(slot, seq, clock, len(keys))
		_, req.Values = r.putRows(int(slot), keys, value, k.w.cfg.tables[0].PushFloats())
		req.Ticket, req.Flags = rep.Ticket, psmsg.FlagTicket
		return req
	})
	if code != psmsg.CodeOK {
		k.w.t.Errorf("a push by ticket was answered %v", code)
	}
}

// The step that was added up last can be pulled as it was by who goes on for a worker
// that died in it; at every replica, and where there is none. Of the step before it
// nothing is told, and nothing claimed.
func TestRetained(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("plain %v", plain), func(t *testing.T) {
				servers := 2
				if plain {
					servers = 1
				}
				w := newChainWorld(t, chainWorldConfig{transport: transport, groups: 1, workers: 2, tables: []table.Spec{sgdTable()}, dense: 5, plain: plain,
					change: func(c *Config) { c.Retain = true }}, servers, []int{0, 1}[:servers])
				k, other := w.worker(0, 1), w.worker(1, 2)
				keys, fewer := w.keysOf(0, 10), w.keysOf(0, 4)
				all := func(at []float32, value float32) bool {
					return !slices.ContainsFunc(at, func(v float32) bool { return v != value })
				}
				for step := range uint64(4) {
					was := float32(step)
					for _, k := range []*chainWorker{k, other} {
						k.collectAll()
						if got := k.pull(0, step, keys, false); !all(got[:4*testDim], -3*was) || !all(got[4*testDim:], -was) {
							t.Fatalf("step %d: worker %d pulls %v", step, k.number, got)
						}
						if got := k.pullDense(0, step); !all(got, -4*was) {
							t.Fatalf("step %d: worker %d pulls the dense values %v", step, k.number, got)
						}
					}
					k.pushDense(0, step, 2, false)
					k.pushPulled(0, step, keys, 1)
					other.pushDense(0, step, 2, false)
					other.push(0, step, fewer, 2, true) // the step is whole
					other.collectAll()
					k.collectAll()
					for range 2 {
						if got := other.pull(0, step, keys, false); !all(got[:4*testDim], -3*was) || !all(got[4*testDim:], -was) {
							t.Fatalf("step %d, which is over: %v", step, got)
						}
						if other.version != 2*step {
							t.Errorf("step %d, which is over: rows of version %d, want %d", step, other.version, 2*step)
						}
						if got := other.pullDense(0, step); !all(got, -4*was) {
							t.Fatalf("step %d, which is over: the dense values %v", step, got)
						}
						if other.version != step {
							t.Errorf("step %d, which is over: dense values of version %d, want %d", step, other.version, step)
						}
					}
					w.standAfter(step, func(s psmsg.Standing) {
						if !s.Retained || s.Applied != step+1 {
							t.Errorf("step %d: worker 1 stands at %+v", step, s)
						}
					})
				}
				if plain {
					return
				}
				// A copy has them, too, whoever it is of; also when all others are gone.
				for range 2 {
					w.join(w.start(), 0)
					w.until("it has joined", func() bool { return len(w.members(0)) == 3 })
					w.cut(w.nodes[0])
					w.kill(w.nodes[0])
				}
				if got := other.pull(0, 3, keys, false); !all(got[:4*testDim], -9) || !all(got[4*testDim:], -3) {
					t.Errorf("the step before, of a copy: %v", got)
				}
				if other.version != 6 {
					t.Errorf("the step before, of a copy: rows of version %d, want 6", other.version)
				}
				if got := other.pullDense(0, 3); !all(got, -12) {
					t.Errorf("the step before, of a copy: the dense values %v", got)
				}
				if other.version != 3 {
					t.Errorf("the step before, of a copy: dense values of version %d, want 3", other.version)
				}
				// One that was told nothing says so.
				n := w.nodes[0]
				must(t, n.servers[0].lanes[0].do(time.Minute, func() {
					n.servers[0].lanes[0].chain.End(nil)
					if s := n.servers[0].lanes[0].standing(1); s.Retained {
						t.Errorf("a replica claims to know a past that it was not told: %+v", s)
					}
				}))
				var r *raw
				w.until("it lets readers in", func() (in bool) {
					var err error
					r, err = w.reader(n, 0, 1)
					return err == nil
				})
				r.ask(3, 0, keys)
				if rep, ok := r.wait(patience); ok {
					t.Errorf("a replica that does not know how a step began answers %v", rep.Code)
				}
			})
		}
	})
}

// standAfter shows how worker 1 stands at each replica when that has a step.
func (w *chainWorld) standAfter(step uint64, show func(s psmsg.Standing)) {
	w.t.Helper()
	for _, n := range w.nodes {
		l := n.servers[0].lanes[0]
		w.until("every replica has the step", func() (is bool) {
			must(w.t, l.do(time.Minute, func() { is = l.clock.Min() == step+1 }))
			return is
		})
		must(w.t, l.do(time.Minute, func() { show(l.standing(1)) }))
	}
}

// Where the dense values alone are in bsp, who goes on pulls them as they were; rows are as
// they are, since each push to them counts at once. Without dense values there is nothing of
// a step to be had back, and nobody is told that something of it is lost.
func TestRetainedOfOneTable(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		for _, plain := range []bool{false, true} {
			for _, dense := range []int{5, 0} {
				t.Run(fmt.Sprintf("plain %v, %d dense values", plain, dense), func(t *testing.T) { retainedOfOne(t, transport, plain, dense) })
			}
		}
	})
}

func retainedOfOne(t *testing.T, transport string, plain bool, dense int) {
	servers := 2
	if plain {
		servers = 1
	}
	w := newChainWorld(t, chainWorldConfig{transport: transport, groups: 1, workers: 2, tables: []table.Spec{sgdTable()}, dense: dense, plain: plain,
		change: func(c *Config) {
			c.Retain, c.Modes = true, map[uint32]clock.Mode{sgdTable().ID: clock.Fixed(clock.Async)}
		}}, servers, []int{0, 1}[:servers])
	k, other, keys := w.worker(0, 1), w.worker(1, 2), w.keysOf(0, 4)
	holds := func(what string, at []float32, value float32) {
		t.Helper()
		if slices.ContainsFunc(at, func(v float32) bool { return v != value }) {
			t.Fatalf("%s: %v, want %g", what, at, value)
		}
	}
	for step := range uint64(3) {
		was := float32(step)
		k.pull(0, step, keys, false)
		for i, k := range []*chainWorker{k, other} {
			if dense > 0 {
				holds("dense values of the step", k.pullDense(0, step), -4*was)
				k.pushDense(0, step, 2, false)
			}
			k.push(0, step, keys, 1, true)
			if i == 0 && !plain { // where a worker of these has no other request while a push is unanswered
				w.until("the first push counts", func() bool { return k.pull(0, step, keys, false)[0] == -2*was-1 })
			}
		}
		other.collectAll()
		k.collectAll()
		holds("rows of a step that is over", other.pull(0, step, keys, false), -2*was-2)
		if dense > 0 {
			holds("dense values of a step that is over", other.pullDense(0, step), -4*was)
		}
		w.standAfter(step, func(s psmsg.Standing) {
			if !s.Gives(step) || s.Retained != (dense > 0) {
				t.Errorf("step %d: worker 1 stands at %+v", step, s)
			}
		})
	}
	if plain || dense == 0 {
		return
	}
	for range 2 { // a copy has them, too; also when all others are gone
		w.join(w.start(), 0)
		w.until("it has joined", func() bool { return len(w.members(0)) == 3 })
		w.cut(w.nodes[0])
		w.kill(w.nodes[0])
	}
	holds("rows, of a copy", other.pull(0, 2, keys, false), -6)
	holds("dense values of the step before, of a copy", other.pullDense(0, 2), -8)
}

func (k *chainWorker) collectAll() {
	for g := range k.unanswered {
		k.collect(g)
	}
}

// Who was cut out, and comes again in the same process, has let go of the past with all
// else, and claims none of it until it is copied.
func TestRetainedAfterRejoin(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, tables: []table.Spec{sgdTable()}, dense: 5,
		change: func(c *Config) { c.Retain = true }}, 2, []int{0, 1})
	k, keys, n := w.worker(0, 1), w.keysOf(0, 10), w.nodes[1]
	l := n.servers[0].lanes[0]
	step := func(clock uint64) {
		k.pushDense(0, clock, 2, false)
		k.push(0, clock, keys, 1, true)
		k.collectAll()
		w.until("the replica has the step", func() (is bool) {
			must(t, l.do(time.Minute, func() { is = l.clock.Min() == clock+1 }))
			return is
		})
	}
	retained := func() (is bool) {
		must(t, l.do(time.Minute, func() { is = l.standing(0).Retained }))
		return is
	}
	for clock := range uint64(3) {
		step(clock)
		if !retained() {
			t.Fatalf("step %d is not retained by who has added it up", clock)
		}
		w.cut(n)
		if retained() {
			t.Fatal("who was cut out claims to know the past")
		}
		w.join(n, 0)
		w.until("it has joined again", func() bool { return len(w.members(0)) == 2 })
		if !retained() {
			t.Fatal("the past was not copied")
		}
		w.alike()
	}
}
