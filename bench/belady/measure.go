package belady

import (
	"fmt"
	"time"

	"psrt/tiers"
	"psrt/tiers/table"
)

// Measured is what a table did over a trace.
type Measured struct {
	Result
	Rows  int // that fit in memory
	Waits uint64
}

// perBatch bounds the wait for one batch.
const perBatch = time.Minute

// Measure runs a table over a trace, as training does: batches are announced
// window ahead, looked up, updated and released. It counts from batch from on.
func Measure(t Trace, m *tiers.Tiered, spec table.Spec, window, from int) (Measured, error) {
	var res Measured
	announced, before := 0, tiers.Stats{}
	for b, keys := range t {
		if b == from {
			res, before = Measured{}, m.Stats()
		}
		for ; announced < len(t) && announced <= b+window; announced++ {
			m.Announce(uint64(announced), t[announced])
		}
		l := &tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: true}
		deadline := time.Now().Add(perBatch)
		for done := m.Start(l); !done; done = len(m.Poll()) > 0 {
			if time.Now().After(deadline) {
				return res, fmt.Errorf("belady: batch %d of %d keys did not end within %v", b, len(keys), perBatch)
			}
		}
		if l.Err != nil {
			return res, fmt.Errorf("belady: batch %d: %w", b, l.Err)
		}
		m.Apply(l.Rows, make([]float32, len(keys)*spec.Dim))
		m.Release(l.Rows)
		m.Passed(uint64(b) + 1)
		for range pollsAStep { // the time that a step takes
			m.Poll()
		}
		res.Uses += len(keys)
		res.Made += l.Created
	}
	s := m.Stats()
	res.Reads, res.Waits, res.Rows = int(s.DiskReads-before.DiskReads), s.SyncReads-before.SyncReads, s.InMemory
	return res, nil
}

const pollsAStep = 2000
