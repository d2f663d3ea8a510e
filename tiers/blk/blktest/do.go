package blktest

import (
	"errors"
	"testing"
	"time"

	"psrt/tiers/blk"
)

// Patience bounds every wait of the suite, for machines much slower than ours.
const Patience = 60 * time.Second

// Do submits requests, as many at a time as the device takes, and gives their
// results in the order of the requests. IDs are overwritten.
func Do(t testing.TB, d blk.Device, rs ...blk.Request) []blk.Result {
	t.Helper()
	results := make([]blk.Result, len(rs))
	seen := make([]bool, len(rs))
	for i := range rs {
		rs[i].ID = uint64(i)
	}
	left, out := rs, make([]blk.Result, 7)
	deadline := time.Now().Add(Patience)
	for done := 0; done < len(rs); {
		if len(left) > 0 {
			n, err := d.Submit(left)
			if err != nil {
				t.Fatalf("Submit took %d of %d and failed: %v", n, len(left), err)
			}
			left = left[n:]
		}
		n := d.Poll(out)
		for _, r := range out[:n] {
			if r.ID >= uint64(len(rs)) || seen[r.ID] {
				t.Fatalf("result with ID %d, which is not in flight", r.ID)
			}
			seen[r.ID], results[r.ID] = true, r
		}
		if done += n; n > 0 || done == len(rs) {
			continue
		}
		if err := d.Wait(deadline); err != nil {
			t.Fatalf("Wait with %d of %d requests done: %v", done, len(rs), err)
		}
	}
	return results
}

// Must is Do where nothing may fail.
func Must(t testing.TB, d blk.Device, rs ...blk.Request) {
	t.Helper()
	for i, r := range Do(t, d, rs...) {
		if r.Err != nil {
			t.Fatalf("%v at %d: %v", rs[i].Op, rs[i].Offset, r.Err)
		}
		if rs[i].Op <= blk.Write && r.N != len(rs[i].Buf) {
			t.Fatalf("%v at %d: %d of %d bytes, and no error", rs[i].Op, rs[i].Offset, r.N, len(rs[i].Buf))
		}
	}
}

// Buffer is memory from the device.
func Buffer(t testing.TB, d blk.Device, size int) []byte {
	t.Helper()
	b, err := d.Buffers(size)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Create makes a file.
func Create(t testing.TB, d blk.Device, name string, size int64) int {
	t.Helper()
	f, err := d.Create(name, size)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}
