package client

import (
	"testing"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// private is a trainer's memory: no file is behind it.
type private struct{ rdma.Memory }

func (p private) Descriptor() (int, int64, bool) { return -1, 0, false }

// Memory that a server does not reach, as it has come to be on this host, is as good as
// any: for rows and for the dense vector, of which every lane writes its own blocks.
func TestMemoryOutOfReach(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		const floats, dim, steps = 3000, 3, 4
		spec := sumTable(7, dim)
		w := newWorld(t, worldConfig{transport: tr, servers: 2, lanes: 2, workers: 1, staleness: server.Async, tables: []table.Spec{spec}, dense: floats})
		c := w.open(0)
		keys := make([]uint64, 300)
		for i := range keys {
			keys[i] = uint64(i)*0x9e3779b97f4a7c15 + 1
		}
		n := len(keys) * dim
		arena, err := mem.New(mem.Config{Size: 4 * (n + floats), Node: -1, Purpose: "test"})
		must(t, err)
		lent := c.Lend(private{arena}, "trainer's memory")
		t.Cleanup(func() { lent.Close(); arena.Close() })
		if mapped := c.lanes[0].mapped; c.Direct(lent) == mapped || lent.Shares() {
			t.Fatalf("over memory that is mapped (%v) it is said to be reached: %v", mapped, c.Direct(lent))
		}
		r := c.NewLentRows(spec)
		t.Cleanup(r.Close)
		plan(t, r, keys)
		must(t, r.Lend(lent, 0))
		d := c.NewLentDense(floats, 5, lent, 4*n)
		for step := range uint64(steps) {
			for i := range r.Grads() {
				r.Grads()[i] = float32(i % 7)
			}
			for i := range d.Grads() {
				d.Grads()[i] = float32(i % 11)
			}
			var call Call
			must(t, c.PushDense(d, step, true, &call))
			must(t, c.Wait(&call))
			push(t, c, r, step)
			clear(r.Values())
			clear(d.Values())
			pull(t, c, r, step+1, 0)
			must(t, c.PullDense(d, step+1, 0, &call))
			must(t, c.Wait(&call))
			for i, v := range r.Values() {
				if want := -float32(step+1) * float32(i%7); v != want {
					t.Fatalf("step %d: value %d is %v, want %v", step, i, v, want)
				}
			}
			for i, v := range d.Values() {
				if want := -float32(step+1) * float32(i%11); v != want {
					t.Fatalf("step %d: dense value %d is %v, want %v", step, i, v, want)
				}
			}
		}
		for _, l := range c.lanes {
			for slot, x := range l.standIns {
				if x != nil {
					t.Errorf("what stood in at lane %d, slot %d, is there yet", l.index, slot)
				}
			}
		}
	})
}
