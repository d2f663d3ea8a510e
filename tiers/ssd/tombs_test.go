package ssd

import "testing"

// TestDeletionsDoNotPileUp: rows that stay for ever, or nearly, beside keys that
// come and go. Each deletion has to be kept as long as a segment from before it
// may hold a row of its key; that is not for ever, and neither is what they take.
func TestDeletionsDoNotPileUp(t *testing.T) {
	t.Run("cold rows stay", func(t *testing.T) { pileUp(t, 1<<62) })
	t.Run("cold rows die now and then", func(t *testing.T) { pileUp(t, 500) })
}

// pileUp overwrites a cold row every so many keys.
func pileUp(t *testing.T, every uint64) {
	const cold, churn = 4000, 80_000
	disks, devs := memory(t, seed(t, 0), 1, 512)
	r := newRig(t, 256)
	cfg := Config{SegmentBytes: 256 << 10}
	r.mustOpen(cfg, devs...)
	r.fill(cold)
	most := 0
	for k := range uint64(churn) {
		if err := r.put(0, cold+k); err != nil {
			t.Fatal(err)
		}
		if k >= 100 {
			if err := r.del(0, cold+k-100); err != nil {
				t.Fatal(err)
			}
		}
		if k%every == every-1 {
			if err := r.put(0, k*7%cold); err != nil {
				t.Fatal(err)
			}
		}
		if k%8 == 0 {
			r.poll()
		}
		if k%1000 == 999 {
			if err := r.retry(func() error { _, err := r.s.Commit(nil); return err }); err != nil {
				t.Fatal(err)
			}
			most = max(most, r.s.used)
		}
	}
	if err := r.commit(); err != nil {
		t.Fatal(err)
	}
	r.settle()
	r.owners[0].log.findOldest()
	tombs := r.owners[0].log.oldest.kept
	st := r.s.Stats()
	amp := float64(st.Written) / float64(st.Appended)
	t.Logf("%d deletions of %d are kept; at most %d segments of which %d hold what lives; %.2f bytes written for each of a row: %+v", tombs, churn, most, st.LiveBytes/(256<<10)+1, amp, st)
	if tombs > churn/4 || amp > 2.5 {
		t.Fatalf("%d deletions of %d are kept, and %.2f bytes were written for each of a row", tombs, churn, amp)
	}
	if err := r.verify(r.snapshot()); err != nil {
		t.Fatal(err)
	}
	want := r.snapshot()
	r.close()
	r.mustOpen(cfg, reopen(t, disks)...)
	if err := r.verify(want); err != nil {
		t.Fatal(err)
	}
	r.close()
}
