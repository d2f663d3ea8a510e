package tiers

// readsAhead bounds the reads ahead under way, so that lookups do not wait
// behind them for long.
const readsAhead = 512

// Announce notes what a batch will look up.
func (t *Tiered) Announce(batch uint64, keys []uint64) {
	if t.belady == nil || t.closed {
		return
	}
	t.belady.Announce(batch, keys)
	t.readAhead()
	t.flush()
	t.submit()
}

// Passed ends batches.
func (t *Tiered) Passed(batch uint64) {
	if t.belady == nil || t.closed {
		return
	}
	t.belady.Passed(batch)
	t.ahead = aheadAt{}
	t.readAhead()
	t.flush()
	t.submit()
}

// aheadAt is how far rows have been read ahead: all before key of batch.
type aheadAt struct {
	batch uint64
	key   int
}

// readAhead reads the rows of the next batches into frames whose rows are used
// later than those, or not at all as far as is known.
func (t *Tiered) readAhead() {
	if t.belady == nil || t.frozen {
		return
	}
	begin, end := t.belady.Window()
	a := &t.ahead
	if a.batch < begin {
		*a = aheadAt{batch: begin}
	}
	for end = min(end, begin+uint64(t.cfg.Ahead)+1); a.batch < end; *a = (aheadAt{batch: a.batch + 1}) {
		keys := t.belady.Keys(a.batch)
		for a.key < len(keys) {
			n := min(len(keys)-a.key, 256)
			if !t.readSome(a, keys[a.key:a.key+n]) {
				return
			}
		}
	}
}

// readSome reads the rows of keys that are on disk, and moves a behind the last
// that was dealt with; false: no more now.
func (t *Tiered) readSome(a *aheadAt, keys []uint64) bool {
	t.flush()
	vals := append(t.scratch.vals[:0], make([]uint32, len(keys))...)
	t.scratch.vals = vals
	t.index.Find(keys, vals)
	defer t.flush()
	var seen map[uint64]bool // of keys read just now: vals is older
	for i, v := range vals {
		if v == noRow || v >= onFrame || seen[keys[i]] {
			a.key++
			continue
		}
		if t.loading >= readsAhead || t.room() < 1 {
			return false
		}
		f, err := t.takeAfter(a.batch)
		if err != nil {
			return false
		}
		if seen == nil {
			seen = map[uint64]bool{}
		}
		seen[keys[i]] = true
		t.read(f, keys[i], v, 0)
		t.stats.PrefetchedRows++
		a.key++
	}
	return true
}

// takeAfter is take, but no row leaves that is used in batch or before.
func (t *Tiered) takeAfter(batch uint64) (uint32, error) {
	if len(t.free) == 0 {
		t.addSlab()
	}
	if len(t.free) > 0 {
		return t.take()
	}
	return t.victim(func(may func(uint32) bool) (uint32, bool) {
		f, ok, _ := t.belady.VictimAfter(batch, may)
		return f, ok
	})
}
