package policy

// LRU lets the row go that was looked up longest ago.
type LRU struct{ l lists }

// NewLRU makes one without frames.
func NewLRU() *LRU { return &LRU{newLists(1)} }

// Grow makes room for frames below n.
func (p *LRU) Grow(n int) { p.l.grow(n) }

// Add puts a row last.
func (p *LRU) Add(frame uint32, _ uint64) { p.l.move(0, frame) }

// Touch puts a row last again.
func (p *LRU) Touch(frame uint32, _ uint64) { p.l.move(0, frame) }

// Remove forgets a row.
func (p *LRU) Remove(frame uint32, _ uint64) { p.l.remove(frame) }

// Victim is the first.
func (p *LRU) Victim(may func(uint32) bool) (uint32, bool) { return p.l.first(0, may) }

// Bytes counts the links.
func (p *LRU) Bytes() int64 { return p.l.bytes() }

// Reset forgets all rows.
func (p *LRU) Reset() { p.l.reset() }
