package ssd

import (
	"math/rand/v2"
	"testing"
)

// TestLayout: no two records overlap, none leaves its page's room, and not much
// is wasted.
func TestLayout(t *testing.T) {
	seed := seed(t, 0)
	rng := rand.New(rand.NewPCG(seed, 9))
	records := []int{1, 4, 20, 64, 100, 252, 256, 508, 512, 1000, 4092, 4096, 9000, 40000, MaxRecordBytes}
	for range 200 {
		records = append(records, 1+rng.IntN(MaxRecordBytes), 1+rng.IntN(1000))
	}
	for _, block := range []int{512, 4096} {
		for _, segment := range []int{256 << 10, 1 << 20, 4 << 20} {
			for _, record := range records {
				l, err := newLayout(record, block, segment)
				if err != nil {
					t.Fatalf("record %d, block %d, segment %d: %v", record, block, segment, err)
				}
				if err := l.check(block, segment); err != nil {
					t.Fatal(err)
				}
				end := 0
				for i := range l.slots {
					at := l.at(i)
					if at < end {
						t.Fatalf("%+v: record %d begins at %d, the one before ends at %d", l, i, at, end)
					}
					end = at + l.stored()
					if l.perBlock > 0 && at/block != (end-1)/block {
						t.Fatalf("%+v: record %d lies in two blocks", l, i)
					}
				}
				if end > l.data || l.group() < 1 || l.group()%l.align() != 0 || l.group()*(l.page+l.data) > chunkBytes {
					t.Fatalf("%+v: records end at %d, %d pages in a buffer", l, end, l.group())
				}
				share := float64(l.perSegment()*record) / float64(segment)
				if record == 256 && segment == 1<<20 && share < 0.84 || record >= 64 && record <= 4096 && share < 0.65 {
					t.Errorf("record %d, block %d, segment %d: only %.2f of it are payloads: %+v", record, block, segment, share, l)
				}
				if record == 256 || record == 64 {
					t.Logf("record %d, block %d, segment %d: %.3f %+v", record, block, segment, share, l)
				}
			}
		}
	}
}
