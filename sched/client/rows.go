package client

import (
	"fmt"
	"math"

	"psrt/csrc/probe"
	"psrt/tiers/table"
)

// Rows is the working set of one step for one table: the unique keys of a
// batch, their values and the gradients, all in registered memory, numbered in
// lane order. A trainer keeps two and uses them in turn.
type Rows struct {
	c     *Client
	spec  table.Spec
	arena *shared // keys | values | grads
	lean  lean    // what is left out of the arena
	lent  lent    // where values or gradients lie instead
	cap   int     // rows
	n     int
	keys  []uint64
	vals  []float32
	grads []float32

	laneOff []int    // lane i owns rows laneOff[i]..laneOff[i+1]-1
	tickets []uint64 // by lane, 0 = none
	hot     *hotTable
	hotFrom []int // by lane: its hot rows begin here
	hots    []hotPlace

	dedup probe.DedupScratch
	cat   []uint64
	occ   []int32
	uniq  []uint64
	lane  []uint16
	pos   []int32
	next  []int
	calls int // in flight

	packed packed // of the push
}

// NewRows makes a working set for a table. It grows as needed.
func (c *Client) NewRows(spec table.Spec) (*Rows, error) {
	r := c.emptyRows(spec)
	if err := r.reserve(1024); err != nil {
		return nil, err
	}
	return r, nil
}

func (c *Client) emptyRows(spec table.Spec) *Rows {
	r := &Rows{c: c, spec: spec, laneOff: make([]int, len(c.lanes)+1), tickets: make([]uint64, len(c.lanes)), next: make([]int, len(c.lanes)+1)}
	if r.hot = c.hotOf(&spec); r.hot != nil {
		r.hotFrom = make([]int, len(c.lanes))
	}
	return r
}

// reserve makes room for n rows. Values and gradients are lost when it grows.
func (r *Rows) reserve(n int) error {
	if n <= r.cap {
		return nil
	}
	if r.calls > 0 {
		return fmt.Errorf("client: table %s: %d requests on this working set are in flight", r.spec.Name, r.calls)
	}
	n += n / 4
	keyBytes := align64(n * 8)
	valBytes := r.matrixBytes(n)
	a, err := r.c.share(keyBytes+(2-int(r.lean))*valBytes, "worker batch matrix")
	if err != nil {
		return fmt.Errorf("client: table %s: memory for a batch of %d rows of %d floats: %w", r.spec.Name, n, r.spec.Dim, err)
	}
	if r.arena != nil {
		r.arena.close()
	}
	r.arena, r.cap = a, n
	r.lay()
	return nil
}

// Len is the number of unique rows planned.
func (r *Rows) Len() int { return r.n }

// Values is the pulled matrix, Len() x Dim.
func (r *Rows) Values() []float32 { return r.vals[:r.n*r.spec.Dim] }

// Grads is the matrix to push, Len() x PushFloats of the table: the gradients, and
// with a lifecycle slot, show and click before them.
func (r *Rows) Grads() []float32 { return r.grads[:r.n*r.spec.PushFloats()] }

// Keys are the unique keys in matrix order.
func (r *Rows) Keys() []uint64 { return r.keys[:r.n] }

// Plan takes the unique keys of each leaf (micro-batch), finds the unique keys
// of all of them, and numbers these in lane order. index[l][i] becomes the row
// of leaves[l][i]; index[l] must be as long as leaves[l].
func (r *Rows) Plan(leaves [][]uint64, index [][]int32) error {
	r.cat = r.cat[:0]
	for _, l := range leaves {
		r.cat = append(r.cat, l...)
	}
	total := len(r.cat)
	r.occ, r.uniq = grow(r.occ, total), grow(r.uniq, total)
	n := 0
	if total > 0 {
		n = probe.Dedup(&r.dedup, r.cat, r.occ, r.uniq)
	}
	if err := r.reserve(n); err != nil {
		return err
	}
	r.n = n
	r.order(r.uniq[:n])
	at := 0
	for l, keys := range leaves {
		out := index[l][:len(keys)]
		for i, o := range r.occ[at : at+len(keys)] {
			out[i] = r.pos[o]
		}
		at += len(keys)
	}
	return nil
}

// order sorts keys by lane (counting sort), filling keys, pos and laneOff.
func (r *Rows) order(uniq []uint64) {
	m := r.c.cfg.Map
	r.lane, r.pos = grow(r.lane, len(uniq)), grow(r.pos, len(uniq))
	count := r.next
	clear(count)
	for i, k := range uniq {
		l := m.LaneOf(k)
		r.lane[i] = uint16(l)
		count[l+1]++
	}
	for l := 1; l < len(count); l++ {
		count[l] += count[l-1]
	}
	copy(r.laneOff, count)
	if r.hot != nil {
		r.orderHot(uniq)
	}
	for i, k := range uniq {
		l := r.lane[i]
		if l == placedHot {
			continue
		}
		p := count[l]
		count[l]++
		r.pos[i] = int32(p)
		r.keys[p] = k
	}
	clear(r.tickets)
}

// placedHot is the lane of a key that has its number.
const placedHot = math.MaxUint16

// orderHot gives each lane's last numbers to its hot rows.
func (r *Rows) orderHot(uniq []uint64) {
	r.hot.count(uniq)
	copy(r.hotFrom, r.laneOff[1:])
	r.hots = r.hot.ranked(uniq, r.lane, r.hots[:0])
	for i := len(r.hots) - 1; i >= 0; i-- {
		h := &r.hots[i]
		r.hotFrom[h.lane]--
		p := r.hotFrom[h.lane]
		r.keys[p], r.pos[h.at], r.lane[h.at] = uniq[h.at], int32(p), placedHot
	}
}

// Take plans r as from is planned: the same keys under the same numbers.
func (r *Rows) Take(from *Rows) error {
	if err := r.reserve(from.n); err != nil {
		return err
	}
	r.n = copy(r.keys, from.Keys())
	copy(r.laneOff, from.laneOff)
	copy(r.hotFrom, from.hotFrom)
	clear(r.tickets)
	return nil
}

// Close frees the working set. Nothing may be in flight.
func (r *Rows) Close() {
	r.packed.close()
	if r.arena != nil {
		r.arena.close()
		r.arena = nil
	}
}

func align64(n int) int { return (n + 63) &^ 63 }

// grow returns s with length n, reallocating only to grow; contents are lost.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4+64)
	}
	return s[:n]
}
