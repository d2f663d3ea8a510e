package dram

import (
	"errors"
	"fmt"

	"psrt/rdma/mem"
)

// ErrBudget marks a table that has reached Config.MaxBytes.
// What to do about it is for callers to say: they know the flag that set it.
var ErrBudget = errors.New("the table's memory budget is used up")

const (
	unitBytes     = 1 << 20  // an index segment; the most a slab may have
	firstArena    = 2 << 20  // an empty table asks for this much address space
	largestArena  = 64 << 20 // a huge table grows by this much
	arenaFraction = 8        // in between by this part of what it has
)

// pool hands out pieces of arenas. Arenas are larger than pieces, for huge
// pages and few mappings; pages are touched only when a piece is written.
type pool struct {
	node     int
	maxBytes int64
	budget   *Budget
	purpose  string
	arenas   []*mem.Arena
	left     int   // bytes free in the last arena
	reserved int64 // bytes of all arenas
	used     int64 // bytes handed out
}

// alloc gives n zeroed bytes aligned to a cache line.
func (p *pool) alloc(n int) ([]byte, error) {
	n = (n + 63) &^ 63
	if p.left < n {
		if err := p.grow(n); err != nil {
			return nil, err
		}
	}
	b, err := p.arenas[len(p.arenas)-1].Alloc(n, 64)
	if err != nil {
		return nil, err
	}
	p.left -= n
	p.used += int64(n)
	return b, nil
}

func (p *pool) grow(n int) error {
	size := p.arena(p.reserved, int64(n))
	if p.maxBytes > 0 {
		size = min(size, p.maxBytes-p.reserved)
		if size < int64(n) {
			return fmt.Errorf("%w: %d bytes more are needed, %d of %d are taken",
				ErrBudget, n, p.reserved, p.maxBytes)
		}
	}
	size, err := p.budget.take(size, int64(n))
	if err != nil {
		return err
	}
	a, err := mem.New(mem.Config{Size: int(size), Node: p.node, Purpose: p.purpose})
	if err != nil {
		p.budget.give(size)
		return err
	}
	p.arenas = append(p.arenas, a)
	p.left = int(size)
	p.reserved += size
	return nil
}

// has says whether pieces of these sizes can be had, one kind after the other.
func (p *pool) has(kinds ...pieces) bool {
	left, reserved := int64(p.left), p.reserved
	for _, k := range kinds {
		size := (k.size + 63) &^ 63
		for range k.count {
			if left < size {
				left = p.arena(reserved, size)
				if p.maxBytes > 0 {
					left = min(left, p.maxBytes-reserved)
				}
				if b := p.budget; b != nil {
					left = min(left, (b.limit-b.taken-(reserved-p.reserved))/64*64)
				}
				if left < size {
					return false
				}
				reserved += left
			}
			left -= size
		}
	}
	return true
}

// pieces are count times size bytes.
type pieces struct {
	count int
	size  int64
}

// arena is how large the next arena should be, that has room for least bytes.
func (p *pool) arena(reserved, least int64) int64 {
	return max(min(max(reserved/arenaFraction/unitBytes*unitBytes, firstArena), largestArena), least)
}

// info describes the newest arena; "" while there is none.
func (p *pool) info() string {
	if len(p.arenas) == 0 {
		return ""
	}
	return p.arenas[len(p.arenas)-1].Info().String()
}

func (p *pool) close() error {
	var errs []error
	for _, a := range p.arenas {
		errs = append(errs, a.Close())
	}
	p.budget.give(p.reserved)
	*p = pool{}
	return errors.Join(errs...)
}
