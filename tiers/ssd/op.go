package ssd

import "psrt/tiers/blk"

// op is one request on its way. Its number in store.ops is the request's ID.
type op struct {
	req  blk.Request
	id   int32
	rows []wanted // of a read of rows; then is nil
	seg  uint32   // of a read of rows
	keys bool     // reads a summary page for keys that are not known; page is its number
	page int
	then func(blk.Result)
}

// wanted is one row of a read, at byte at of the op's buffer, or number at of
// the page where the op reads keys.
type wanted struct {
	log *Log
	r   Read
	at  int
}

// queue is a first-in-first-out of ops.
type queue struct {
	ids  []*op
	head int
}

func (q *queue) len() int { return len(q.ids) - q.head }

func (q *queue) push(o *op) {
	if q.head > 64 && q.head*2 > len(q.ids) {
		n := copy(q.ids, q.ids[q.head:])
		clear(q.ids[n:])
		q.ids, q.head = q.ids[:n], 0
	}
	q.ids = append(q.ids, o)
}

func (q *queue) drop(n int) {
	clear(q.ids[q.head : q.head+n])
	q.head += n
	if q.head == len(q.ids) {
		q.ids, q.head = q.ids[:0], 0
	}
}

// newOp takes an op from the free ones.
func (s *Store) newOp() *op {
	if n := len(s.freeOps); n > 0 {
		o := s.freeOps[n-1]
		s.freeOps = s.freeOps[:n-1]
		return o
	}
	o := &op{id: int32(len(s.ops))}
	o.req.ID = uint64(o.id)
	s.ops = append(s.ops, o)
	return o
}

func (s *Store) endOp(o *op) {
	clear(o.rows)
	*o = op{id: o.id, rows: o.rows[:0]}
	o.req.ID = uint64(o.id)
	s.freeOps = append(s.freeOps, o)
}
