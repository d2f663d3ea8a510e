package policy

// S3FIFO is the policy of "FIFO queues are all you need for cache eviction"
// (Yang et al., SOSP 2023): new rows go through a small queue, a tenth of the
// frames; those looked up again on the way go on to the main queue, the others
// leave and are remembered for a while, so that they go to the main queue when
// they come back. In the main queue a row is passed over once for each lookup.
type S3FIFO struct {
	l     lists
	freq  []uint8
	ghost ghost
	keys  []uint64 // by frame
}

const (
	small, main = 0, 1
	maxFreq     = 3
	promoteFreq = 2  // lookups after the first that make a row worth the main queue
	smallPart   = 10 // of the frames, one part
)

// NewS3FIFO makes one without frames.
func NewS3FIFO() *S3FIFO { return &S3FIFO{l: newLists(2)} }

// Grow makes room for frames below n.
func (p *S3FIFO) Grow(n int) {
	p.l.grow(n)
	p.freq, p.keys = extend(p.freq, n), extend(p.keys, n)
	p.ghost.room(n)
}

// Add queues a row.
func (p *S3FIFO) Add(frame uint32, key uint64) {
	p.freq[frame], p.keys[frame] = 0, key
	if p.ghost.take(key, p.l.size[small]+p.l.size[main]+1) {
		p.l.move(main, frame)
		return
	}
	p.l.move(small, frame)
}

// Touch counts a lookup.
func (p *S3FIFO) Touch(frame uint32, _ uint64) { p.freq[frame] = min(p.freq[frame]+1, maxFreq) }

// Remove forgets a row, without remembering its key.
func (p *S3FIFO) Remove(frame uint32, _ uint64) { p.l.remove(frame) }

// Victim goes over the queues. A row that may not go is in use: it goes on to
// the main queue, or to its back.
func (p *S3FIFO) Victim(may func(uint32) bool) (uint32, bool) {
	total := p.l.size[small] + p.l.size[main]
	// In maxFreq + 1 turns of the main queue every row has been met with its count
	// at 0, and before that every row of the small queue once.
	for range (maxFreq + 2) * total {
		if p.l.size[small]*smallPart >= total || p.l.size[main] == 0 {
			f := p.l.head[small]
			if p.freq[f] >= promoteFreq || !may(f) {
				p.freq[f] = 0
				p.l.move(main, f)
				continue
			}
			p.l.remove(f)
			p.ghost.put(p.keys[f])
			return f, true
		}
		f := p.l.head[main]
		if p.freq[f] > 0 || !may(f) {
			p.freq[f] -= min(p.freq[f], 1)
			p.l.move(main, f)
			continue
		}
		p.l.remove(f)
		return f, true
	}
	return none, false
}

// Bytes counts links, counters and remembered keys.
func (p *S3FIFO) Bytes() int64 {
	return p.l.bytes() + int64(cap(p.freq)) + 8*int64(cap(p.keys)) + p.ghost.bytes()
}

// Reset forgets all rows.
func (p *S3FIFO) Reset() {
	p.l.reset()
	p.ghost.reset()
}
