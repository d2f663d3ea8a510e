package tiers

import "psrt/tiers/policy"

// ahead is what has been done for announced batches: rows on disk are read into
// frames, and frames kept free for rows that will be made, in the order of their
// uses, as long as no row has to leave for it that is used as soon.
type ahead struct {
	batch uint64 // all before it is done
	at    uint32 // and of it all uses up to this one
	turn  uint32 // counts the times that it went back
	// kept are the free frames that lookups of a batch will make rows in, by batch
	// mod policy.MaxBatches.
	kept [policy.MaxBatches]int32
	sum  int
	next uint64 // the first batch that may have some
}

func newAhead() ahead { return ahead{at: policy.NoUse} }

// leadShare: a row that is read early takes the place of another all the while. So
// what is read ahead of the batch that is due is at most one part of so many of the
// memory, but that batch in any case.
const leadShare = 8

// slackShare: with room for so many batches the one behind the next is read ahead, too.
// Rows that leave have to be written first, behind the reads that the disk was given;
// with the next batch alone a step at the disk's pace comes before its last rows are
// asked for (54 of 5,263 reads a step, with room for 5 batches).
const slackShare = 4

// askedAtOnce bounds the keys looked at together, aheadQueued the reads ahead that
// the disk is given: a lookup's own wait behind no more. It is given many at a time,
// as rows that lie side by side are read at once.
const (
	askedAtOnce = 512
	aheadQueued = 2048
)

// Announce notes what a batch will look up.
func (t *Tiered) Announce(batch uint64, keys []uint64) {
	if t.belady == nil || t.closed {
		return
	}
	n := t.belady.Announce(batch, keys)
	t.stats.Announced += uint64(n)
	t.stats.Unheeded += uint64(len(keys) - n)
	if batch < t.ahead.batch { // a part that comes later than others
		t.again(batch)
	}
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
	a := &t.ahead
	for ; a.sum > 0 && a.next < batch; a.next++ {
		a.keep(a.next, 0)
	}
	t.readAhead()
	t.flush()
	t.submit()
}

// keep sets how many frames are kept for a batch.
func (a *ahead) keep(batch uint64, n int32) {
	k := &a.kept[batch%policy.MaxBatches]
	a.sum += int(n - *k)
	*k = n
}

// made says that a row has been made in one of the frames kept.
func (a *ahead) made() {
	for ; a.sum > 0; a.next++ {
		if n := a.kept[a.next%policy.MaxBatches]; n > 0 {
			a.keep(a.next, n-1)
			return
		}
	}
}

// again has batches from this one on looked at once more: a row that they use
// has left memory, or they use more.
func (t *Tiered) again(batch uint64) {
	a := &t.ahead
	if batch > a.batch || batch == a.batch && a.at == policy.NoUse {
		return
	}
	for b := batch; b <= a.batch; b++ {
		a.keep(b, 0)
	}
	a.batch, a.at = batch, policy.NoUse
	a.turn++
}

// left is told which rows leave memory.
func (t *Tiered) left(key uint64) {
	if t.belady == nil {
		return
	}
	if b, ok := t.belady.NextUse(key); ok {
		t.again(b)
	}
}

// readAhead goes on with the batches that come next.
func (t *Tiered) readAhead() {
	if t.belady == nil || t.frozen {
		return
	}
	a, s := &t.ahead, &t.scratch
	for t.aheadEnds() > a.batch {
		n, _ := t.belady.Keys(a.batch, a.at, s.ahead[:])
		if n == 0 {
			a.batch, a.at = a.batch+1, policy.NoUse
		} else if !t.readSome(s.ahead[:n]) {
			return
		}
	}
}

// aheadEnds is behind the last batch to be read ahead.
func (t *Tiered) aheadEnds() uint64 {
	begin, end := t.belady.Window()
	if a := &t.ahead; a.batch < begin {
		a.batch, a.at = begin, policy.NoUse
	}
	due, rows := t.belady.Due()
	frames := t.space.frames()
	lead := max(1, frames/max(1, leadShare*rows))
	if frames >= slackShare*rows {
		lead = max(lead, 2)
	}
	return min(end, begin+uint64(t.cfg.Ahead)+1, due+uint64(lead))
}

// readSome reads those of keys that are on disk, and moves on behind the last that
// was dealt with; false: no more now.
func (t *Tiered) readSome(keys []uint64) bool {
	t.flush()
	a, batch, turn, s := &t.ahead, t.ahead.batch, t.ahead.turn, &t.scratch
	s.vals = append(s.vals[:0], make([]uint32, len(keys))...)
	t.index.Find(keys, s.vals)
	done := 0
	for i, v := range s.vals {
		if v == noRow && !t.keepFree(batch) || v < onFrame && !t.readOne(batch, keys[i], v) {
			break
		}
		done++
	}
	t.flush()
	if a.turn != turn { // a row has left that is used before
		return true
	}
	_, a.at = t.belady.Keys(batch, a.at, s.ahead[:done])
	return done == len(keys)
}

// readOne begins to read a row that batch uses.
func (t *Tiered) readOne(batch, key uint64, slot uint32) bool {
	if t.room() < 1 {
		return false
	}
	f, err := t.takeAfter(batch)
	if err != nil {
		return false
	}
	t.read(f, key, slot, 0)
	t.stats.PrefetchedRows++
	return true
}

// keepFree keeps one more frame for a row that batch makes.
func (t *Tiered) keepFree(batch uint64) bool {
	a := &t.ahead
	if len(t.free)+t.space.more() <= a.sum {
		f, err := t.victimAfter(batch)
		if err != nil {
			return false
		}
		t.giveBack(f)
	}
	if a.sum == 0 {
		a.next = batch
	}
	a.next = min(a.next, batch)
	a.keep(batch, a.kept[batch%policy.MaxBatches]+1)
	return true
}

// takeAfter is take, but no row leaves that is used in batch or before, and no
// frame is taken that is kept.
func (t *Tiered) takeAfter(batch uint64) (uint32, error) {
	if len(t.free)+t.space.more() > t.ahead.sum {
		return t.take()
	}
	return t.victimAfter(batch)
}

func (t *Tiered) victimAfter(batch uint64) (uint32, error) {
	return t.victim(func(may func(uint32) bool) (uint32, bool) { return t.belady.VictimAfter(batch, may) })
}

// lookedUp tells the policy of a look-up of a row that is there, cameFor of a row
// that has come into memory for one.
func (t *Tiered) lookedUp(l *Lookup, f uint32, key uint64) {
	if t.belady != nil && !l.Aside && !l.Ahead {
		t.belady.Used(f, key)
	} else {
		t.policy.Touch(f, key)
	}
}

func (t *Tiered) cameFor(l *Lookup, f uint32, key uint64) {
	if t.belady != nil && !l.Aside && !l.Ahead {
		t.belady.Used(f, key)
	}
}
