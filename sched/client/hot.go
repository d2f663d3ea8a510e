package client

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"psrt/tiers/table"
)

// Hot has a client keep values of the rows that it pulls most often, and pull them
// again only when they are Staleness steps old.
type Hot struct {
	Rows      int `json:"rows"`      // of each table, 0: none
	Staleness int `json:"staleness"` // steps; 0: none
}

// MaxHotRows bounds them.
const MaxHotRows = 1 << 20

// hotTable is one table's: which rows are hot by what is planned, and their values as
// pulls bring them. In a plan hot rows are the last of their lane, the hottest last of
// all, and what a pull leaves out is the end of a lane: rows whose values are fresh.
type hotTable struct {
	most      int
	staleness uint64
	set       atomic.Pointer[hotSet]

	mu     sync.Mutex // plans may be made by a goroutine of their own
	counts map[uint64]uint32
	plans  int

	// The owner's.
	known *hotSet // that rows is pruned to
	rows  map[uint64]*hotRow
	stats HotStats
}

// hotSet is the hot rows by rank: the hottest have the greatest. It never changes.
type hotSet struct{ rank map[uint64]int32 }

type hotRow struct {
	version uint64 // of the table, in the pull's answer: for the record
	clock   uint64 // of the pull that has brought the values
	values  []float32
}

// HotStats counts rows of pulls that may be answered by kept values.
type HotStats struct {
	Pulled uint64 `json:"pulled"` // from servers
	Kept   uint64 `json:"kept"`   // answered by values that were kept
}

const (
	// hotEvery is how many plans are looked at between two choices of hot rows,
	// hotSample how many rows of each.
	hotEvery  = 64
	hotSample = 512
	// hotLeast is how often a row must have been seen; counts are halved at each choice.
	hotLeast = 3
)

// hotOf is a table's, nil where nothing is kept.
func (c *Client) hotOf(spec *table.Spec) *hotTable {
	h := c.cfg.Hot
	if h.Rows <= 0 || h.Staleness <= 0 || spec.Lifecycle != nil {
		return nil
	}
	c.hotMu.Lock()
	defer c.hotMu.Unlock()
	t := c.hot[spec.ID]
	if t == nil {
		t = &hotTable{most: min(h.Rows, MaxHotRows), staleness: uint64(h.Staleness), counts: map[uint64]uint32{}, rows: map[uint64]*hotRow{}}
		if c.hot == nil {
			c.hot = map[uint32]*hotTable{}
		}
		c.hot[spec.ID] = t
	}
	return t
}

// HotRows counts, over all tables.
func (c *Client) HotRows() (all HotStats) {
	c.lock()
	defer c.unlock()
	c.hotMu.Lock()
	defer c.hotMu.Unlock()
	for _, t := range c.hot {
		all.Pulled += t.stats.Pulled
		all.Kept += t.stats.Kept
	}
	return all
}

// count looks at a plan's keys, and now and then chooses the hot ones anew.
func (t *hotTable) count(keys []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.plans++
	step := max(1, len(keys)/hotSample)
	for i := t.plans % step; i < len(keys); i += step {
		t.counts[keys[i]]++
	}
	if t.plans%hotEvery == 0 || len(t.counts) > 8*t.most+hotEvery*hotSample {
		t.choose()
	}
}

func (t *hotTable) choose() {
	type seen struct {
		key uint64
		n   uint32
	}
	var all []seen
	for k, n := range t.counts {
		if n >= hotLeast {
			all = append(all, seen{k, n})
		}
		if t.counts[k] = n / 2; n < 2 {
			delete(t.counts, k)
		}
	}
	slices.SortFunc(all, func(a, b seen) int { return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.key, b.key)) })
	all = all[max(0, len(all)-t.most):]
	set := &hotSet{make(map[uint64]int32, len(all))}
	for i, s := range all {
		set.rank[s.key] = int32(i)
	}
	t.set.Store(set)
}

// hotPlace is a hot row of a plan.
type hotPlace struct {
	at   int // in the list of unique keys
	lane uint16
	rank int32
}

// ranked finds the hot ones of keys, lane by lane, the hottest last.
func (t *hotTable) ranked(keys []uint64, lane []uint16, to []hotPlace) []hotPlace {
	set := t.set.Load()
	if set == nil {
		return to
	}
	for i, k := range keys {
		if rank, ok := set.rank[k]; ok {
			to = append(to, hotPlace{i, lane[i], rank})
		}
	}
	slices.SortFunc(to, func(a, b hotPlace) int {
		return cmp.Or(cmp.Compare(a.lane, b.lane), cmp.Compare(a.rank, b.rank))
	})
	return to
}

// keeps says whether values of a working set may be kept, and given. A stepped client's
// owner may end no steps: then nothing that it kept would ever be old.
func (c *Client) keeps(r *Rows) bool {
	return r.hot != nil && r.lean != noRows && (c.steps || !c.cfg.Stepped)
}

// keepHot fills in what a pull may have of a lane from kept values, and returns how many
// rows that is: its last ones. With the turn.
func (c *Client) keepHot(r *Rows, lane int, clock uint64, opt PullOption, call *Call) int {
	if opt != 0 || !c.keeps(r) {
		return 0
	}
	kept := r.hot.keep(r, lane, clock)
	c.noteKept(r, lane, kept, call)
	return kept
}

// keep fills in kept values of a lane's last rows as of clock, and returns how many. With
// the turn.
func (t *hotTable) keep(r *Rows, lane int, clock uint64) (kept int) {
	dim := r.spec.Dim
	for at := r.laneOff[lane+1] - 1; at >= r.hotFrom[lane]; at-- {
		row := t.rows[r.keys[at]]
		if row == nil || row.clock > clock || clock-row.clock > t.staleness {
			break
		}
		copy(r.vals[at*dim:(at+1)*dim], row.values)
		kept++
	}
	t.stats.Kept += uint64(kept)
	t.stats.Pulled += uint64(r.laneOff[lane+1] - r.laneOff[lane] - kept)
	return kept
}

// take notes the values that a pull has brought. With the turn.
func (t *hotTable) take(r *Rows, p *part, version uint64) {
	set, dim := t.set.Load(), r.spec.Dim
	if set == nil {
		return
	}
	if t.known != set {
		t.known = set
		maps.DeleteFunc(t.rows, func(k uint64, _ *hotRow) bool { _, ok := set.rank[k]; return !ok })
	}
	for at := r.hotFrom[p.lane]; at < r.laneOff[p.lane+1]-p.kept; at++ {
		k := r.keys[at]
		if _, ok := set.rank[k]; !ok {
			continue
		}
		row := t.rows[k]
		if row == nil {
			row = &hotRow{}
			t.rows[k] = row
		} else if row.clock > p.clock {
			continue
		}
		row.clock, row.version = p.clock, version
		row.values = append(row.values[:0], r.vals[at*dim:(at+1)*dim]...)
	}
}
