package client

import (
	"fmt"
	"slices"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/tiers/table"
)

// lean says how many of the two matrices a working set does without.
type lean int

const (
	both   lean = iota
	one         // values and gradients share a matrix: it is used for a pull or a push
	noRows      // keys only: values or gradients lie in lent memory
)

// lent is where a working set's matrix lies in memory of the trainer's own.
type lent struct {
	memory *Memory
	off    int // bytes
}

// ofDevice says whether rows lie where the server alone can fetch them.
func (l *lent) ofDevice() bool { return l.memory != nil && l.memory.s.ofDevice() }

// Memory is registered memory that is not the client's: values can be pulled
// into it and gradients pushed from it. It belongs to the goroutine of its Client.
type Memory struct {
	s *shared
}

// Lend registers m, on each domain when a server there first needs it.
func (c *Client) Lend(m rdma.Memory, purpose string) *Memory {
	return &Memory{&shared{c: c, memory: m, regions: map[rdma.Domain]rdma.Region{}, purpose: purpose}}
}

// Register does now what the first use would do, with every server's domain.
func (m *Memory) Register() error {
	for _, l := range m.s.c.lanes {
		if l.domain == nil {
			continue
		}
		if _, err := m.s.remote(l.domain, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// Bytes is the memory.
func (m *Memory) Bytes() []byte { return m.s.memory.Bytes() }

// Close takes it back: no server can reach it any more. Nothing may be in flight.
func (m *Memory) Close() { m.s.close() }

// Direct says whether every server reaches m now: shared memory needs a descriptor. In a
// job with replicas a group may come to be elsewhere: to a server that does not reach m
// requests go by a copy.
func (c *Client) Direct(m *Memory) bool {
	return !slices.ContainsFunc(c.lanes, func(l *laneConn) bool { return !l.reachesMemory(m.s) })
}

// Looks says whether this client looks at gradients that it sends, or at values that it
// gets: such must not lie in a device's memory.
func (c *Client) Looks() bool { return c.press != nil || c.audit != nil }

// Shares says whether m is reached by every server there may ever be.
func (m *Memory) Shares() bool {
	_, _, shares := m.s.memory.Descriptor()
	return shares
}

// NewLeanRows makes a working set for a pull or a push, one at a time: values and
// gradients share their memory. Nothing is allocated before the first Plan.
func (c *Client) NewLeanRows(spec table.Spec) *Rows {
	r := c.emptyRows(spec)
	r.lean = one
	return r
}

// NewPlanRows makes a working set that has keys only, in the order that they have in those
// of NewRows, which take them: rows that are kept come last of a lane's.
func (c *Client) NewPlanRows(spec table.Spec) *Rows {
	r := c.emptyRows(spec)
	r.lean = noRows
	return r
}

// NewLentRows makes a working set that has keys only: Lend says where the rows lie. Their
// order is the caller's, which must not change from plan to plan: none is kept.
func (c *Client) NewLentRows(spec table.Spec) *Rows {
	r := c.NewPlanRows(spec)
	r.hot = nil
	return r
}

// Lend puts the rows of this working set at off bytes of m. Preconditions: off is
// a multiple of 4, and there is room for all planned rows.
func (r *Rows) Lend(m *Memory, off int) error {
	b := m.Bytes()
	need := r.n * r.spec.PushFloats() * 4
	if off < 0 || off%4 != 0 || off > len(b) || need > len(b)-off {
		return fmt.Errorf("client: table %s: %d rows of %d floats at %d of %d bytes of lent memory", r.spec.Name, r.n, r.spec.Dim, off, len(b))
	}
	r.lent = lent{m, off}
	r.vals = mem.Float32s(b[off : off+need])
	r.grads = r.vals
	return nil
}

// matrixBytes is room for values or for what is pushed.
func (r *Rows) matrixBytes(rows int) int { return align64(rows * r.spec.PushFloats() * 4) }

// lay cuts the arena into keys, values and gradients.
func (r *Rows) lay() {
	b := r.arena.arena.Bytes()
	at, n := align64(r.cap*8), r.cap*r.spec.PushFloats()*4
	r.keys = mem.Uint64s(b[:r.cap*8])
	switch r.lean {
	case both:
		r.vals = mem.Float32s(b[at : at+n])
		at += r.matrixBytes(r.cap)
		r.grads = mem.Float32s(b[at : at+n])
	case one:
		r.vals = mem.Float32s(b[at : at+n])
		r.grads = r.vals
	}
}

// place is where values, or gradients, lie: memory and first byte.
func (r *Rows) place(grads bool) (*shared, int) {
	if r.lean == noRows {
		return r.lent.memory.s, r.lent.off
	}
	off := align64(r.cap * 8)
	if grads && r.lean == both {
		off += r.matrixBytes(r.cap)
	}
	return r.arena, off
}

// NewLentDense makes a working set for a pull of the dense vector to off bytes of m,
// or a push from there, one at a time.
// Preconditions: off is a multiple of 4, and there is room for n floats.
func (c *Client) NewLentDense(n, blocks int, m *Memory, off int) *Dense {
	v := mem.Float32s(m.Bytes()[off : off+n*4])
	return &Dense{c: c, arena: m.s, n: n, vals: v, grads: v, lanes: c.denseLanes(blocks), at: off, lent: true}
}
