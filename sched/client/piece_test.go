package client

import (
	"slices"
	"testing"

	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// A pull of many rows reaches its lane in pieces, one at a time, so that the pulls of others
// come between. Its values are those of the rows, and they can be pushed.
func TestLargePullGoesInPieces(t *testing.T) {
	const dim, rows = 4, wholeRows + 3*pieceRows/2
	spec := sumTable(1, dim)
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldConfig{transport: transport, servers: 1, lanes: 1, workers: 1, staleness: server.Async, tables: []table.Spec{spec}})
			c := w.open(0)
			r := w.rows(c, spec)
			keys := make([]uint64, rows)
			for i := range keys {
				keys[i] = uint64(i) * 7
			}
			plan(t, r, keys)
			if made := pull(t, c, r, 0, AnyClock); made.Created != rows {
				t.Fatalf("%d rows were made, want %d", made.Created, rows)
			}
			want := slices.Clone(r.Values())
			clear(r.Values())
			pull(t, c, r, 0, AnyClock|ReadOnly)
			if !slices.Equal(r.Values(), want) {
				t.Error("the values differ")
			}
			st, err := w.servers[0].Stats()
			must(t, err)
			if pieces := uint64((rows + pieceRows - 1) / pieceRows); st.Pulls != 2*pieces {
				t.Errorf("%d requests, want %d for each of two pulls", st.Pulls, pieces)
			}
			if len(c.lanes[0].free) != psmsg.Slots {
				t.Errorf("%d slots are free", len(c.lanes[0].free))
			}
			for i := range r.Grads() {
				r.Grads()[i] = 1
			}
			push(t, c, r, 0)
			pull(t, c, r, 0, AnyClock|ReadOnly)
			for i, v := range r.Values() {
				if v == want[i] {
					t.Fatalf("float %d was not pushed", i)
				}
			}
			plan(t, r, keys[:wholeRows]) // no longer large
			pull(t, c, r, 0, AnyClock|ReadOnly)
			after, err := w.servers[0].Stats()
			must(t, err)
			if after.Pulls != 3*st.Pulls/2+1 {
				t.Errorf("%d requests, a pull of %d rows is to be one", after.Pulls, wholeRows)
			}
		})
	}
}
