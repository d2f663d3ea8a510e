package client

import (
	"testing"

	"psrt/tiers/table"
)

// Where a server grants its fetches they have an endpoint of their own, and nowhere else.
// When that one breaks, and the other does not, the worker is connected again, and
// nothing is lost or counted twice.
func TestFetchesApart(t *testing.T) {
	for transport, apart := range map[string]bool{"tcp" + grants: true, "tcp": false, "shm": false} {
		const lanes, steps = 2, 6
		spec := sumTable(1, 64)
		w := newWorld(t, worldConfig{transport: transport, servers: 1, lanes: lanes, workers: 1, tables: []table.Spec{spec}})
		c := w.open(0)
		r := w.rows(c, spec)
		keys := make([]uint64, 3000) // more than a slot carries
		for i := range keys {
			keys[i] = uint64(i) * 0x9e3779b97f4a7c15
		}
		for step := range uint64(steps) {
			want := 0
			if apart {
				want = lanes
			}
			if n := len(c.servers[0].conn.Twins); n != want {
				t.Errorf("%s: %d lanes have an endpoint for fetches, want %d", transport, n, want)
			}
			index := plan(t, r, keys)
			pull(t, c, r, step, 0)
			for _, at := range index {
				for j := range spec.Dim {
					if v := r.Values()[int(at)*spec.Dim+j]; v != float32(step) {
						t.Fatalf("%s: a value is %v after %d pushes of 1", transport, v, step)
					}
					r.Grads()[int(at)*spec.Dim+j] = -1
				}
			}
			if apart && step%2 == 1 {
				must(t, c.servers[0].conn.Twins[int(step/2)%lanes].Close())
			}
			var call Call
			must(t, c.Push(r, step, true, &call))
			must(t, c.Wait(&call))
		}
	}
}
