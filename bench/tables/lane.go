package tables

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"time"

	"psrt/bench/turns"
	"psrt/rdma/mem"
)

const (
	mine = iota
	limit
)

// watched is how many rows of a lane are updated a second time.
const watched = 256

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// lane is one thread's tables and load.
type lane struct {
	*load
	cfg   *Config
	n     int // rows
	sides [2]side
	b     batch
	row   []float32               // scratch
	watch [2]map[uint32][]float32 // rows by their place, as they must be in the end
}

func newLane(c *Config, i, dim int) (*lane, error) {
	first, end := i*c.Rows/c.Threads, (i+1)*c.Rows/c.Threads
	load, err := newLoad(c, i, dim, end-first, uint64(first)+1)
	if err != nil {
		return nil, err
	}
	l := &lane{load: load, cfg: c, n: end - first, row: make([]float32, load.acc.RowFloats()),
		b: batch{places: make([]uint32, c.Keys), keys: make([]uint64, c.Keys), rows: make([]uint32, c.Keys), dst: make([]float32, c.Keys*dim)}}
	spec := c.spec(dim)
	l.sides = [2]side{
		mine:  &ours{spec: spec, seed: c.Seed, rule: load.acc.Rule()},
		limit: &plain{acc: load.acc, dim: dim, n: l.n, first: load.first, rate: load.acc.Rule().LR},
	}
	for k := range l.watch {
		l.watch[k] = map[uint32][]float32{}
		for at := 0; at < l.n; at += max(1, l.n/watched) {
			row := make([]float32, len(l.row))
			l.acc.Born(l.key(uint32(at)), row)
			l.watch[k][uint32(at)] = row
		}
	}
	return l, nil
}

func (l *lane) close() error { return errors.Join(l.sides[mine].close(), l.sides[limit].close()) }

// messages of a round of o.
func (l *lane) messages(o *op) int {
	if o.build {
		return l.n
	}
	return l.cfg.Batches * l.cfg.Keys
}

// play plays one round of o on one side. from is where in the walk it begins.
// sum is of all answers.
func (l *lane) play(ctx context.Context, o *op, who, from int) (took turns.Took, sum uint32, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, b, places := l.sides[who], l.b, l.walk
	if o.build {
		places, from = l.order, 0
	}
	for at, total := 0, l.messages(o); at < total; at += len(b.keys) {
		if err := context.Cause(ctx); err != nil {
			return took, 0, err
		}
		n := min(total-at, l.cfg.Keys)
		b = batch{l.b.places[:n], l.b.keys[:n], l.b.rows[:n], l.b.dst[:n*l.dim], at == 0}
		l.batch(places, from+at, &b)
		if err := o.before(l, s, &b); err != nil {
			return took, 0, err
		}
		cpu, start := turns.ThreadCPU(), time.Now()
		err := o.do(l, s, &b)
		took.Wall += time.Since(start).Seconds()
		took.CPU += turns.ThreadCPU() - cpu
		if err != nil {
			return took, 0, err
		}
		if o.answer != nil {
			sum = crc32.Update(sum, castagnoli, o.answer(&b))
		}
	}
	if o.right != nil { // of the last batch
		for i, key := range b.keys {
			if !o.right(l, &b, i) {
				return took, 0, fmt.Errorf("wrong answer for key %#x, row %d", key, l.arrival[b.places[i]])
			}
		}
	}
	return took, sum, nil
}

// learn repeats what the batch is going to do to the rows under watch.
func (l *lane) learn(s side, b *batch) {
	who := mine
	if s == l.sides[limit] {
		who = limit
	}
	for i, place := range b.places {
		if row := l.watch[who][place]; row != nil {
			s.learn(row, l.grads[i*l.dim:][:l.dim])
		}
	}
}

// ended pulls all rows of one side, checks those under watch, and sums them up.
func (l *lane) ended(who int) (sum uint32, err error) {
	for at := 0; at < l.n; at += l.cfg.Keys {
		n := min(l.n-at, l.cfg.Keys)
		b := batch{l.b.places[:n], l.b.keys[:n], l.b.rows[:n], l.b.dst[:n*l.dim], false}
		l.batch(l.order, at, &b)
		if err := l.sides[who].pull(b.keys, b.rows, b.dst); err != nil {
			return 0, err
		}
		for i, place := range b.places {
			want, got := l.watch[who][place], b.dst[i*l.dim:][:l.dim]
			if want != nil && !equal(want[:l.dim], got) {
				return 0, fmt.Errorf("the row of key %#x is not what its gradients make of it", b.keys[i])
			}
		}
		sum = crc32.Update(sum, castagnoli, mem.Bytes(b.dst))
	}
	return sum, nil
}

// equal bit for bit.
func equal(a, b []float32) bool { return string(mem.Bytes(a)) == string(mem.Bytes(b)) }
