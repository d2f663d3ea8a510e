package tables

import (
	"slices"

	"psrt/rdma/mem"
)

// op is one operation of the report.
type op struct {
	name  string
	bytes func(dim int) int // of one message, which is a key
	build bool              // plays all keys once, in the order of arrival
	// before readies a batch, and do is what is timed.
	before func(l *lane, s side, b *batch) error
	do     func(l *lane, s side, b *batch) error
	// answer is what do wrote, to be summed; nil for none.
	answer func(b *batch) []byte
	// right says whether the answer for key i of the batch is as it must be.
	right func(l *lane, b *batch, i int) bool
}

// batch is the memory of one batch, of all sides and operations in turn.
type batch struct {
	places []uint32
	keys   []uint64
	rows   []uint32
	dst    []float32
	first  bool // of a round
}

func weights(dim int) int { return dim * 4 }

var (
	nought = func(*lane, side, *batch) error { return nil }
	rows   = func(b *batch) []byte { return mem.Bytes(b.rows) }
)

// operations in the order of the report; each leaves the tables as the next one
// needs them.
func operations() []op {
	return []op{
		{name: "insert", bytes: weights, build: true, before: func(l *lane, s side, b *batch) error {
			s.ready(b.keys)
			if b.first {
				return s.close()
			}
			return nil
		}, do: func(l *lane, s side, b *batch) error {
			if b.first {
				if err := s.open(); err != nil {
					return err
				}
			}
			return s.insert(b.keys, b.rows)
		}, answer: rows, right: isRow},
		{name: "lookup", bytes: func(int) int { return 8 }, before: nought, do: func(_ *lane, s side, b *batch) error {
			return s.find(b.keys, b.rows)
		}, answer: rows, right: isRow},
		{name: "lookup+gather", bytes: weights, before: nought, do: func(_ *lane, s side, b *batch) error {
			return s.pull(b.keys, b.rows, b.dst)
		}, answer: func(b *batch) []byte { return mem.Bytes(b.dst) }, right: isBorn},
		{name: "update", bytes: weights, before: func(l *lane, s side, b *batch) error {
			err := s.find(b.keys, b.rows)
			l.learn(s, b)
			return err
		}, do: func(l *lane, s side, b *batch) error {
			s.update(b.rows, l.grads[:len(b.keys)*l.dim])
			return nil
		}},
	}
}

// isRow: rows are numbered in the order in which their keys came.
func isRow(l *lane, b *batch, i int) bool { return b.rows[i] == l.arrival[b.places[i]] }

// isBorn: nothing has changed the row since it was made.
func isBorn(l *lane, b *batch, i int) bool {
	l.acc.Born(b.keys[i], l.row)
	return slices.Equal(b.dst[i*l.dim:][:l.dim], l.row[:l.dim])
}
