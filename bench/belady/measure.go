package belady

import (
	"errors"
	"fmt"
	"time"

	"psrt/tiers"
	"psrt/tiers/blk"
	"psrt/tiers/table"
)

// Measured is what a table did over a trace.
type Measured struct {
	Result
	Room  []int  // by batch: rows that fit in memory
	Waits uint64 // rows that were read when they were asked for
}

// Setting is how a table is run over a trace.
type Setting struct {
	Policy    string
	Rows      int // about as many are to fit in memory
	Keys      int // of the whole trace
	BatchRows int // most keys of a batch
	// Window batches are announced before one is looked up, Behind are looked up
	// before it that have not passed; Ahead is tiers.Config's, counted from those.
	Window, Ahead, Behind int
	Seed                  uint64
}

// perBatch bounds the wait for one batch.
const perBatch = time.Minute

// What a table takes beside its rows, about: for each row in memory, each row, each
// announced use, and once.
const (
	frameBytes = 64
	indexBytes = 21
	useBytes   = 29
	fixedBytes = 96 << 10
)

// Replay makes a table on a disk of memory, and runs it over a trace. Where its
// index has no room in the end, there is more from the start.
func Replay(t Trace, spec table.Spec, s Setting, from int) (res Measured, err error) {
	bytes := s.Rows*(spec.RowBytes()+frameBytes) + s.Keys*indexBytes + s.window()*s.BatchRows*useBytes + fixedBytes
	for range 10 {
		if res, err = replay(t, spec, s, from, bytes); !errors.Is(err, tiers.ErrBudget) {
			break
		}
		bytes += bytes / 16
	}
	return res, err
}

// window is how many batches a table remembers.
func (s *Setting) window() int { return s.Window + s.Behind + 1 }

func replay(t Trace, spec table.Spec, s Setting, from, bytes int) (res Measured, err error) {
	dev, err := blk.NewMemory(blk.MemoryConfig{Seed: s.Seed}).Open()
	if err != nil {
		return res, err
	}
	d, err := tiers.NewDisks([]blk.Device{dev}, tiers.DisksConfig{})
	if err != nil {
		return res, err
	}
	m, err := tiers.NewTiered(spec, s.Seed, tiers.Config{Disks: d, Node: -1, MaxBytes: int64(bytes), BatchRows: s.BatchRows, Policy: s.Policy, Window: s.window(), Ahead: s.Ahead})
	if err != nil {
		return res, errors.Join(err, d.Close())
	}
	res, err = measure(t, m, spec, s, from)
	if err != nil {
		err = fmt.Errorf("belady: %d bytes for %d of %d rows: %w", bytes, s.Rows, s.Keys, err)
	}
	return res, errors.Join(err, m.Close(), d.Close())
}

// measure runs a table over a trace, as training does: batches are announced
// ahead, looked up, updated and released. It counts from batch from on.
func measure(t Trace, m *tiers.Tiered, spec table.Spec, s Setting, from int) (Measured, error) {
	var res Measured
	announced, before, room := 0, tiers.Stats{}, make([]int, len(t))
	for b, keys := range t {
		if b == from {
			res, before = Measured{}, m.Stats() // rooms are of all batches
		}
		for ; announced < len(t) && announced <= b+s.Window; announced++ {
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
		if b >= s.Behind {
			m.Passed(uint64(b-s.Behind) + 1)
		}
		for range pollsAStep { // the time that a step takes
			m.Poll()
		}
		room[b] = m.Stats().InMemory
		res.Uses += len(keys)
		res.Made += l.Created
	}
	// The index and marks take memory as they grow, and give none back: there was
	// room for as many rows as there were later.
	for b := len(t) - 2; b >= 0; b-- {
		room[b] = max(room[b], room[b+1])
	}
	st := m.Stats()
	res.Reads, res.Waits, res.Room = int(st.DiskReads-before.DiskReads), st.SyncReads-before.SyncReads, room
	return res, nil
}

const pollsAStep = 2000
