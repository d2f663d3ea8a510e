package policy

// Belady lets the row go whose next use is furthest in the future, as far as
// uses have been announced; before those, rows without one, the one looked up
// longest ago first.
type Belady struct {
	l      lists // list 0: no use announced; 1 + batch mod MaxBatches: that batch's
	w      window
	frames func(keys []uint64, frames []uint32) // none where a key is not in memory
	buf    []uint32
}

// MaxBatches bounds the window: batches announced and not passed.
const MaxBatches = 62

// NewBelady makes one whose window remembers at most maxUses. frames tells
// where rows are, NoFrame for those that are not in memory.
func NewBelady(maxUses int, frames func(keys []uint64, frames []uint32)) *Belady {
	return &Belady{l: newLists(1 + MaxBatches), w: newWindow(maxUses), frames: frames}
}

// NoFrame is said of a key that is not in memory.
const NoFrame = none

// UseBytes is what one announced use takes: key, next use, and at most three
// slots of the table.
const UseBytes = 8 + 4 + 3*4

// Grow makes room for frames below n.
func (p *Belady) Grow(n int) { p.l.grow(n) }

func (p *Belady) list(key uint64) uint16 {
	if b, ok := p.w.first(key); ok {
		return uint16(1 + b%MaxBatches)
	}
	return 0
}

// Add puts a row where its next use is.
func (p *Belady) Add(frame uint32, key uint64) { p.l.move(p.list(key), frame) }

// Touch puts a row last among those of its next use.
func (p *Belady) Touch(frame uint32, _ uint64) { p.l.move(p.l.of[frame], frame) }

// Remove forgets a row; what is announced of its key stays.
func (p *Belady) Remove(frame uint32, _ uint64) { p.l.remove(frame) }

// Victim is of the row used last.
func (p *Belady) Victim(may func(uint32) bool) (uint32, bool) {
	f, ok, _ := p.VictimAfter(0, may)
	return f, ok
}

// VictimAfter is Victim among rows that are not used before the end of a batch.
// There are none when the best that may go has its use at batch or before: next.
func (p *Belady) VictimAfter(batch uint64, may func(uint32) bool) (frame uint32, ok bool, next uint64) {
	if f, ok := p.l.first(0, may); ok {
		return f, true, 0
	}
	for b := p.w.end; b > p.w.begin; b-- {
		if b-1 <= batch && batch > 0 {
			return none, false, b - 1
		}
		if f, ok := p.l.first(uint16(1+(b-1)%MaxBatches), may); ok {
			return f, true, 0
		}
	}
	return none, false, 0
}

// Announce adds the keys of a batch to the window, and says how many it took:
// all, none when the batch is not later than those before it or too many are
// announced, or as many as there is room for.
func (p *Belady) Announce(batch uint64, keys []uint64) int {
	n := p.w.add(batch, keys)
	if n == 0 {
		return 0
	}
	p.buf = append(p.buf[:0], make([]uint32, n)...)
	p.frames(keys[:n], p.buf)
	for i, f := range p.buf {
		if f != none && p.l.of[f] == 0 {
			p.l.move(p.list(keys[i]), f)
		}
	}
	return n
}

// Keys are those announced for a batch.
func (p *Belady) Keys(batch uint64) []uint64 { return p.w.keysOf(batch) }

// Window is the batches announced and not passed, [begin, end).
func (p *Belady) Window() (begin, end uint64) { return p.w.begin, p.w.end }

// Passed ends the batches below this one.
func (p *Belady) Passed(batch uint64) {
	for p.w.begin < min(batch, p.w.end) {
		keys := p.w.keysOf(p.w.begin)
		p.buf = append(p.buf[:0], make([]uint32, len(keys))...)
		p.frames(keys, p.buf)
		p.w.pass()
		for i, f := range p.buf {
			if f != none && p.l.of[f] != noList {
				p.l.move(p.list(keys[i]), f)
			}
		}
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
