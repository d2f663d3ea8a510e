package blk

import (
	"errors"
	"fmt"

	"psrt/rdma/mem"
)

// pool is the memory that Device.Buffers gave out.
type pool struct {
	arenas []*mem.Arena
	lo, hi []uint64 // addresses, by slot
	pinned []bool   // registered with the kernel, by slot; the ring's
	last   int      // slot that find found last
}

func (p *pool) alloc(size int) ([]byte, error) {
	if len(p.arenas) == MaxBuffers {
		return nil, fmt.Errorf("%w: Buffers was called %d times already; ask for fewer and larger ones", ErrRequest, MaxBuffers)
	}
	if size <= 0 {
		return nil, fmt.Errorf("%w: a buffer of %d bytes", ErrRequest, size)
	}
	a, err := mem.New(mem.Config{Size: size, Node: -1, Purpose: "disk buffers"})
	if err != nil {
		return nil, fmt.Errorf("blk: buffers: %w", err)
	}
	b := a.Bytes()
	lo := mem.Address(b)
	p.arenas, p.lo, p.hi = append(p.arenas, a), append(p.lo, lo), append(p.hi, lo+uint64(len(b)))
	return b, nil
}

// find gives the slot of the buffer that b lies in, -1 if it is in none.
func (p *pool) find(b []byte) int {
	lo := mem.Address(b)
	hi := lo + uint64(len(b))
	if p.last < len(p.lo) && lo >= p.lo[p.last] && hi <= p.hi[p.last] {
		return p.last
	}
	for i := range p.lo {
		if lo >= p.lo[i] && hi <= p.hi[i] {
			p.last = i
			return i
		}
	}
	return -1
}

func (p *pool) close() error {
	var errs []error
	for _, a := range p.arenas {
		errs = append(errs, a.Close())
	}
	*p = pool{}
	return errors.Join(errs...)
}
