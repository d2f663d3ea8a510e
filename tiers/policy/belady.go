package policy

// Belady lets the row go whose next use is furthest in the future, as far as
// uses have been announced; before those, rows without one, the one looked up
// longest ago first.
type Belady struct {
	l      lists // list 0: no use announced; 1 + batch mod MaxBatches: that batch's
	w      window
	frames func(keys []uint64, frames []uint32) // none where a key is not in memory
	keys   []uint64
	buf    []uint32
}

// MaxBatches bounds the window: batches announced and not passed.
const MaxBatches = 62

// NewBelady makes one whose window remembers at most maxUses. frames tells
// where rows are, NoFrame for those that are not in memory.
func NewBelady(maxUses int, frames func(keys []uint64, frames []uint32)) *Belady {
	return &Belady{l: newLists(1 + MaxBatches), w: newWindow(maxUses), frames: frames, keys: make([]uint64, keysAtOnce), buf: make([]uint32, keysAtOnce)}
}

// keysAtOnce is how many rows are asked for at a time.
const keysAtOnce = 1024

// NoFrame is said of a key that is not in memory.
const NoFrame = none

// UseBytes is what one announced use takes: key, the key's and the batch's next
// use, batch, and at most three slots of the table.
const UseBytes = 8 + 4 + 4 + 1 + 3*4

// Grow makes room for frames below n.
func (p *Belady) Grow(n int) { p.l.grow(n) }

func (p *Belady) list(key uint64) uint16 {
	if b, ok := p.w.nextUse(key); ok {
		return uint16(1 + b%MaxBatches)
	}
	return 0
}

// Add puts a row where its next use is.
func (p *Belady) Add(frame uint32, key uint64) { p.l.move(p.list(key), frame) }

// AddFor is Add of a row that was announced for a batch, and for none before that has not passed, as the caller knows: its
// use is sought only where that batch has passed.
func (p *Belady) AddFor(batch uint64, frame uint32, key uint64) {
	if batch < p.w.begin || batch >= p.w.end {
		p.Add(frame, key)
		return
	}
	p.l.move(uint16(1+batch%MaxBatches), frame)
}

// Touch puts a row last among those of its next use.
func (p *Belady) Touch(frame uint32, _ uint64) { p.l.again(frame) }

// Used is Touch for a look-up that was announced: the row goes where its next use is.
func (p *Belady) Used(frame uint32, key uint64) {
	if p.w.look(key) {
		p.l.move(p.list(key), frame)
	} else {
		p.l.again(frame)
	}
}

// Remove forgets a row; what is announced of its key stays.
func (p *Belady) Remove(frame uint32, _ uint64) { p.l.remove(frame) }

// Victim is of the row used last.
func (p *Belady) Victim(may func(uint32) bool) (uint32, bool) {
	if f, ok := p.l.first(0, may); ok {
		return f, true
	}
	return p.usedFrom(p.w.begin, may)
}

// VictimAfter is Victim among rows that are not used at batch or before.
func (p *Belady) VictimAfter(batch uint64, may func(uint32) bool) (uint32, bool) {
	if f, ok := p.l.first(0, may); ok {
		return f, true
	}
	return p.usedFrom(max(p.w.begin, batch+1), may)
}

// usedFrom is a row whose next use is the furthest, and not before batch.
func (p *Belady) usedFrom(batch uint64, may func(uint32) bool) (uint32, bool) {
	for b := p.w.end; b > batch; b-- {
		if f, ok := p.l.first(uint16(1+(b-1)%MaxBatches), may); ok {
			return f, true
		}
	}
	return none, false
}

// NextUse is the batch announced and not passed that uses a key first.
func (p *Belady) NextUse(key uint64) (batch uint64, ok bool) { return p.w.nextUse(key) }

// Announce adds keys that a batch uses to the window. A batch may be announced in
// parts, in whatever order with others. It says how many keys it took: all, none
// when the batch has passed or is too far ahead, or as many as there is room for.
func (p *Belady) Announce(batch uint64, keys []uint64) (taken int) {
	if !p.w.open(batch) {
		return 0
	}
	moved := p.keys[:0]
	for _, key := range keys {
		ok, sooner := p.w.add(batch, key)
		if !ok {
			break
		}
		taken++
		if !sooner {
			continue
		}
		if moved = append(moved, key); len(moved) == keysAtOnce {
			p.place(moved)
			moved = moved[:0]
		}
	}
	p.place(moved)
	return taken
}

// place puts the rows of keys where their next use is now.
func (p *Belady) place(keys []uint64) {
	p.frames(keys, p.buf[:len(keys)])
	for i, f := range p.buf[:len(keys)] {
		if f != none && p.l.of[f] != noList {
			p.l.move(p.list(keys[i]), f)
		}
	}
}

// NoUse is before a batch's first.
const NoUse = none

// Keys copies to dst keys announced for a batch: those behind the use at, which
// is NoUse for the first, or the last that an earlier call gave.
func (p *Belady) Keys(batch uint64, at uint32, dst []uint64) (n int, last uint32) {
	return p.w.after(batch, at, dst)
}

// Window is the batches announced and not passed, [begin, end).
func (p *Belady) Window() (begin, end uint64) { return p.w.begin, p.w.end }

// Due is the first batch of which nothing has been looked up, and how many rows each
// from there on wants on average.
func (p *Belady) Due() (batch uint64, rows int) {
	batch = max(p.w.begin, p.w.begun)
	if p.w.end > batch {
		rows = p.w.due / int(p.w.end-batch)
	}
	return batch, rows
}

// Passed ends the batches below this one.
func (p *Belady) Passed(batch uint64) {
	for p.w.begin < min(batch, p.w.end) {
		p.place(p.keys[:p.w.pass(p.keys)])
	}
	p.w.skip(batch)
}

// Bytes counts links and announced uses.
func (p *Belady) Bytes() int64 { return p.l.bytes() + p.w.bytes() }

// Reset forgets all rows, and what was announced.
func (p *Belady) Reset() {
	p.l.reset()
	p.w.reset()
}
