package belady

import (
	"bytes"
	"reflect"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/table"
)

// TestSimulators: cases that can be counted by hand.
func TestSimulators(t *testing.T) {
	loop := Trace{{1}, {2}, {3}, {1}, {2}, {3}, {1}, {2}, {3}}
	for _, c := range []struct {
		policy       string
		rows, window int
		want         int
	}{
		{"lru", 2, 0, 6},    // a loop is LRU's worst case
		{"lru", 3, 0, 0},    //
		{"belady", 2, 8, 3}, // one of three is kept for its next turn
		{"belady", 2, 1, 3}, // the one used in the next batch is kept
		{"s3fifo", 2, 0, 5}, // 3 is remembered, goes to the main queue, and is met there
		{"s3fifo", 3, 0, 0}, //
		{"belady", 3, 8, 0}, //
		{"belady", 1, 8, 6}, // nothing can be kept
	} {
		if got := Simulate(loop, c.policy, Room(loop, c.rows), c.window, 0); got.Reads != c.want || got.Uses != 9 || got.Made != 3 {
			t.Errorf("%s with %d rows, window %d: %+v, want %d reads", c.policy, c.rows, c.window, got, c.want)
		}
	}
}

func TestBeladyIsBest(t *testing.T) {
	tr := Zipf(seedtest.Rand(t), 100, 50, 5000, 0.9)
	best := Simulate(tr, "belady", Room(tr, 200), len(tr), 0).Reads
	for _, policy := range []string{"lru", "s3fifo"} {
		if n := Simulate(tr, policy, Room(tr, 200), 0, 0).Reads; n < best {
			t.Errorf("%s reads %d, and Belady's with all the future %d", policy, n, best)
		}
	}
}

func TestTraceRoundTrip(t *testing.T) {
	tr := Zipf(seedtest.Rand(t), 20, 30, 1000, 0.8)
	var b bytes.Buffer
	if err := tr.Write(&b); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	got, err := Read(bytes.NewReader(whole))
	if err != nil || !reflect.DeepEqual(got, tr) {
		t.Fatalf("%d batches read of %d, %v", len(got), len(tr), err)
	}
	for _, cut := range []int{1, 9, len(whole) - 1} {
		if _, err := Read(bytes.NewReader(whole[:cut])); err == nil {
			t.Errorf("%d of %d bytes were accepted", cut, len(whole))
		}
	}
	if _, err := Read(bytes.NewReader([]byte{0, 0, 0, 0, 0, 0, 0, 1})); err == nil {
		t.Error("a batch of 2^56 keys was accepted")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := tr.Write(&out); err != nil || !bytes.Equal(out.Bytes(), b) {
			t.Fatalf("read and written again it is another: %v", err)
		}
	})
}

// TestReadsNearBelady holds a table to the simulators: with 8 batches announced
// at most 1.02 x the reads of Belady's rule within the same window; without
// announcements the same for LRU and S3-FIFO.
func TestReadsNearBelady(t *testing.T) {
	r := seedtest.Rand(t)
	const batches, each = 240, 256
	tr, from := Zipf(r, batches, each, 20000, 0.9).Warmed(each)
	near(t, tr, from, Setting{Rows: 2000, Keys: 20000, BatchRows: each, Window: 8, Ahead: 2, Seed: r.Uint64()})
}

// near runs all policies over a trace.
func near(t *testing.T, tr Trace, from int, s Setting) {
	t.Helper()
	spec := table.Spec{Name: "t", ID: 1, Dim: 8, Optimizer: table.Optimizer{Kind: table.SGD}}
	for _, policy := range []string{"belady", "lru", "s3fifo"} {
		t.Run(policy, func(t *testing.T) {
			s.Policy = policy
			got, err := Replay(tr, spec, s, from)
			if err != nil {
				t.Fatal(err)
			}
			want := Simulate(tr, policy, got.Room, s.Window, from)
			ratio := float64(got.Reads) / float64(want.Reads)
			t.Logf("%d to %d rows in memory: %d reads, the simulator's %d: %.4f x; %d waited for", got.Room[from], got.Room[len(tr)-1], got.Reads, want.Reads, ratio, got.Waits)
			if got.Uses != want.Uses || got.Made != want.Made {
				t.Errorf("%+v, the simulator's %+v", got.Result, want)
			}
			if ratio > 1.02 || policy != "belady" && ratio < 0.98 {
				t.Errorf("%.4f x the simulator's reads, at most 1.02", ratio)
			}
			if policy == "belady" && got.Waits > 0 {
				t.Errorf("%d rows were waited for, all can be read ahead", got.Waits)
			}
		})
	}
}
