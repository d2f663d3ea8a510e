package recover

import "testing"

func TestRun(t *testing.T) {
	c := Config{Dir: t.TempDir(), Rows: 20_000, Dim: 32, Dirty: 10, Lanes: 3, Rounds: 2, Seed: 7, SSD: []string{t.TempDir(), t.TempDir()}}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 6 {
		t.Fatalf("%d rows", len(r.Rows))
	}
	for _, row := range r.Rows {
		t.Logf("%s: %d bytes", row.Op, row.Bytes)
	}
	// Sizes, unlike times, are the same on any machine.
	if base, small, delta := r.Rows[0].Bytes, r.Rows[1].Bytes, r.Rows[2].Bytes; delta*8 > base || small*15 > base {
		t.Errorf("base %d bytes, delta %d, quantised %d: want at most an eighth and a fifteenth", base, delta, small)
	}
	for _, n := range r.Notes {
		t.Log(n)
	}
}

func TestLanes(t *testing.T) {
	for lanes := 1; lanes < 20; lanes++ {
		c := Config{Lanes: lanes}
		for i := range 10_000 {
			k := keyOf(i)
			if r := c.covers(c.laneOf(k))[0]; int64(k>>52) < r.First || int64(k>>52) >= r.Last {
				t.Fatalf("%d lanes: key %#x is not in slots %v of its lane", lanes, k, r)
			}
		}
	}
}
