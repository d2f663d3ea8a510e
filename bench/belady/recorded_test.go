package belady

import (
	"os"
	"testing"

	"github.com/klauspost/compress/zstd"

	"psrt/tiers/table"
)

// TestRecordedTrace: on what the lane of a real training looked up, with room for two
// or three steps, a table reads at most 1.02 x what the simulator of Belady's rule
// does that knows the same 8 steps, and within 2 % of what the simulators predict
// relative to LRU and S3-FIFO. Nothing is read when it is asked for. The trace is of
// psbench ahead --record, with --batch 256 --seed 1.
func TestRecordedTrace(t *testing.T) {
	f, err := os.Open("testdata/lookups.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	tr, err := Read(z)
	if err != nil {
		t.Fatal(err)
	}
	keys, most := map[uint64]bool{}, 0
	for _, batch := range tr {
		most = max(most, len(batch))
		for _, key := range batch {
			keys[key] = true
		}
	}
	warmed, from := tr.Warmed(most)
	spec := table.Spec{Name: "t", ID: 1, Dim: 8, Optimizer: table.Optimizer{Kind: table.SGD}}
	reads, predicted := map[string]float64{}, map[string]float64{}
	for _, name := range []string{"belady", "lru", "s3fifo"} {
		got, err := Replay(warmed, spec, Setting{Policy: name, Rows: 3 * most, Keys: len(keys), BatchRows: most, Window: 8, Ahead: 5, Behind: 2, Seed: 1}, from)
		if err != nil {
			t.Fatal(err)
		}
		want := Simulate(warmed, name, got.Room, 8, from)
		reads[name], predicted[name] = float64(got.Reads), float64(want.Reads)
		t.Logf("%s: %d rows read with %d in memory, the simulator's %d: %.4f x; %d waited for", name, got.Reads, got.Room[from], want.Reads, reads[name]/predicted[name], got.Waits)
		if reads[name] > 1.02*predicted[name] {
			t.Errorf("%s reads %.4f x what the simulator does, at most 1.02", name, reads[name]/predicted[name])
		}
		if name == "belady" && got.Waits > 0 {
			t.Errorf("%d rows were read when they were asked for", got.Waits)
		}
	}
	for _, name := range []string{"lru", "s3fifo"} {
		got, want := reads["belady"]/reads[name], predicted["belady"]/predicted[name]
		if got > 1.02*want || got < 0.98*want {
			t.Errorf("belady reads %.4f of what %s does, the simulators %.4f", got, name, want)
		}
	}
}
