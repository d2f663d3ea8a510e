package slowtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"psrt/tiers"
	"psrt/tiers/table"
)

// ErrDisk is what a lookup fails with.
var ErrDisk = errors.New("slowtest: the disk failed, as it was told to")

// Config says how bad things are.
type Config struct {
	Seed uint64
	Late time.Duration // the longest that a lookup takes
	// Room is how many rows may be pinned, 0 for any number; FailOneIn lookups
	// fails, 0 for none.
	Room, FailOneIn int
	Always          bool // late, not three times of four
	Wake            func()
	Report          func(format string, args ...any) // of wrong use
}

// Counts is what has happened to all tables of a test.
type Counts struct {
	Late, Overtaken, Starved, Failed atomic.Int64
	Pinned                           atomic.Int64 // now
	Announced                        atomic.Int64 // keys
}

// Rows is the table.
type Rows struct {
	tiers.Rows
	cfg     Config
	counts  *Counts
	rng     *rand.Rand
	waiting []*late
	byKey   map[uint64]int // how often pinned
	ids     map[uint32]*pinned
	ofKey   map[uint64]*pinned
	next    uint32
	ended   []*tiers.Lookup
	began   int
	passed  uint64
}

type pinned struct {
	key  uint64
	id   uint32 // ours
	row  uint32 // the table's
	pins int
}

type late struct {
	look  *tiers.Lookup
	keys  []uint64
	due   time.Time
	fails bool
	order int
}

// New makes rows late that are in memory.
func New(rows tiers.Rows, cfg Config, counts *Counts) *Rows {
	return &Rows{Rows: rows, cfg: cfg, counts: counts, rng: rand.New(rand.NewPCG(cfg.Seed, 1)),
		byKey: map[uint64]int{}, ids: map[uint32]*pinned{}, ofKey: map[uint64]*pinned{}}
}

// Start is tiers.Rows'.
func (r *Rows) Start(l *tiers.Lookup) bool {
	if r.cfg.Room > 0 {
		if len(l.Keys) > r.cfg.Room {
			l.Err = fmt.Errorf("slowtest: %d rows, there is room for %d", len(l.Keys), r.cfg.Room)
			return true
		}
		more := 0
		for _, k := range l.Keys {
			if r.byKey[k] == 0 {
				more++
			}
		}
		if len(r.byKey)+more > r.cfg.Room {
			r.counts.Starved.Add(1)
			l.Err = tiers.ErrPinned
			return true
		}
	}
	for _, k := range l.Keys {
		r.byKey[k]++
	}
	r.began++
	w := &late{look: l, keys: slices.Clone(l.Keys), order: r.began, fails: r.cfg.FailOneIn > 0 && r.rng.IntN(r.cfg.FailOneIn) == 0}
	if !r.cfg.Always && r.rng.IntN(4) == 0 {
		r.end(w)
		return true
	}
	r.counts.Late.Add(1)
	d := time.Duration(r.rng.Int64N(int64(r.cfg.Late) + 1))
	w.due = time.Now().Add(d)
	time.AfterFunc(d, r.cfg.Wake)
	r.waiting = append(r.waiting, w)
	return false
}

// Poll is tiers.Rows'.
func (r *Rows) Poll() []*tiers.Lookup {
	r.ended = r.ended[:0]
	now := time.Now()
	keep := r.waiting[:0]
	for _, w := range r.waiting {
		if w.due.After(now) {
			keep = append(keep, w)
			continue
		}
		if len(keep) > 0 {
			r.counts.Overtaken.Add(1)
		}
		r.end(w)
		r.ended = append(r.ended, w.look)
	}
	clear(r.waiting[len(keep):])
	r.waiting = keep
	r.rng.Shuffle(len(r.ended), func(i, j int) { r.ended[i], r.ended[j] = r.ended[j], r.ended[i] })
	return r.ended
}

func (r *Rows) end(w *late) {
	l := w.look
	rows := make([]uint32, len(w.keys))
	in := tiers.Lookup{Keys: w.keys, Rows: rows, Create: l.Create}
	if !r.Rows.Start(&in) {
		r.cfg.Report("slowtest: the table below is not in memory")
	}
	l.Created, l.Err = in.Created, in.Err
	if w.fails {
		r.counts.Failed.Add(1)
		l.Err = ErrDisk
	}
	for i, k := range w.keys {
		if l.Err != nil || rows[i] == table.NoRow {
			r.unreserve(k)
			l.Rows[i] = table.NoRow
			continue
		}
		l.Rows[i] = r.pin(k, rows[i])
	}
}

func (r *Rows) unreserve(key uint64) {
	if r.byKey[key]--; r.byKey[key] == 0 {
		delete(r.byKey, key)
	}
}

func (r *Rows) pin(key uint64, row uint32) uint32 {
	p := r.ofKey[key]
	if p == nil {
		r.next++
		p = &pinned{key: key, id: r.next, row: row}
		r.ids[p.id], r.ofKey[key] = p, p
	}
	p.pins++
	r.counts.Pinned.Add(1)
	return p.id
}

// Release is tiers.Rows'.
func (r *Rows) Release(rows []uint32) {
	for _, id := range rows {
		if id == table.NoRow {
			continue
		}
		p := r.ids[id]
		if p == nil {
			r.cfg.Report("slowtest: row %d is let go, and is not pinned", id)
			continue
		}
		r.counts.Pinned.Add(-1)
		r.Rows.Release([]uint32{p.row})
		r.unreserve(p.key)
		if p.pins--; p.pins == 0 {
			delete(r.ids, id)
			delete(r.ofKey, p.key)
		}
	}
}

func (r *Rows) translate(rows []uint32) []uint32 {
	out := make([]uint32, len(rows))
	for i, id := range rows {
		out[i] = table.NoRow
		if p := r.ids[id]; p != nil {
			out[i] = p.row
		} else if id != table.NoRow {
			r.cfg.Report("slowtest: row %d is used, and is not pinned", id)
		}
	}
	return out
}

// Gather is tiers.Rows'.
func (r *Rows) Gather(rows []uint32, dst []float32) { r.Rows.Gather(r.translate(rows), dst) }

// Apply is tiers.Rows'.
func (r *Rows) Apply(rows []uint32, grads []float32) int {
	return r.Rows.Apply(r.translate(rows), grads)
}

// Announce is tiers.Rows'.
func (r *Rows) Announce(batch uint64, keys []uint64) {
	if batch < r.passed {
		r.cfg.Report("slowtest: batch %d is announced, %d has passed", batch, r.passed)
	}
	r.counts.Announced.Add(int64(len(keys)))
}

// Passed is tiers.Rows'.
func (r *Rows) Passed(batch uint64) {
	if batch <= r.passed {
		r.cfg.Report("slowtest: batch %d has passed after %d", batch, r.passed)
	}
	r.passed = batch
}

// Reset is tiers.Rows'.
func (r *Rows) Reset() error {
	if len(r.waiting) > 0 || len(r.ids) > 0 {
		r.cfg.Report("slowtest: reset with %d lookups under way and %d rows pinned", len(r.waiting), len(r.ids))
	}
	return r.Rows.Reset()
}
