package kv

import (
	"sync"

	"psrt/sched/client"
)

// set is what one pull or push needs: unique keys in lane order with their rows,
// and the caller's order.
type set struct {
	rows  *client.Rows
	lent  *client.Rows // keys only, for rows in lent memory; nil before its first use
	index []int32      // by caller's position: the row
	plain bool         // index counts up: the caller's order is the rows'
	one   [1][]uint64
	out   [1][]int32
}

// sets are a table's working sets. There are as many as requests at a time ever
// were; those not in use are kept.
type sets struct {
	table *Table
	mu    sync.Mutex
	free  []*set
	all   int
}

func (s *sets) take() *set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		x := s.free[n-1]
		s.free = s.free[:n-1]
		return x
	}
	s.all++
	return &set{rows: s.table.c.c.NewLeanRows(s.table.spec)}
}

func (s *sets) give(x *set) {
	s.mu.Lock()
	s.free = append(s.free, x)
	s.mu.Unlock()
}

// close frees the sets; those still in use belong to requests that were given up,
// and end with the client's connections, so they are freed by who has them.
func (s *sets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.free {
		x.close()
	}
	s.free = nil
}

func (x *set) close() {
	x.rows.Close()
	if x.lent != nil {
		x.lent.Close()
	}
}

// plan numbers keys in lane order, in rows or lent.
func (x *set) plan(rows *client.Rows, keys []uint64) error {
	if cap(x.index) < len(keys) {
		x.index = make([]int32, len(keys), len(keys)+len(keys)/4+64)
	}
	x.index = x.index[:len(keys)]
	x.one[0], x.out[0] = keys, x.index
	err := rows.Plan(x.one[:], x.out[:])
	x.one[0], x.out[0] = nil, nil
	if err != nil {
		return coded(err, NoMemory)
	}
	x.plain = rows.Len() == len(keys)
	for i, r := range x.index {
		if int(r) != i {
			x.plain = false
			break
		}
	}
	return nil
}

// scatter copies rows to the caller's order.
func (x *set) scatter(values, rows []float32, dim int) {
	if x.plain {
		copy(values, rows)
		return
	}
	if dim == 1 {
		for i, r := range x.index {
			values[i] = rows[r]
		}
		return
	}
	for i, r := range x.index {
		copy(values[i*dim:(i+1)*dim], rows[int(r)*dim:])
	}
}

// gather copies gradients from the caller's order. Those of a key that repeats are
// added, or where adds is false the last one is taken.
func (x *set) gather(rows, grads []float32, dim int, adds bool) {
	if x.plain {
		copy(rows, grads)
		return
	}
	if len(rows) == len(x.index)*dim || !adds {
		for i, r := range x.index {
			copy(rows[int(r)*dim:(int(r)+1)*dim], grads[i*dim:])
		}
		return
	}
	clear(rows)
	for i, r := range x.index {
		row, grad := rows[int(r)*dim:(int(r)+1)*dim], grads[i*dim:(i+1)*dim]
		for e, g := range grad {
			row[e] += g
		}
	}
}
