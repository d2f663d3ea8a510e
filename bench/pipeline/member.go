package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/bench/across"
	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/pipe"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// rowFloats are of a row, and so many that keys are little beside them; rows begin at zero
// and every push takes one from them, so that what they are in the end counts the pushes.
const rowFloats = 256

var rowsSpec = table.Spec{Name: "rows", ID: 1, Dim: rowFloats, Init: table.Init{Kind: table.InitZero}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}}

// serve begins a server of one lane, which ends with ctx.
func serve(ctx context.Context, h *dial.Host, listen string, workers, staleness int) (addr string, over <-chan struct{}, err error) {
	m, err := across.OneServer("")
	if err != nil {
		return "", nil, err
	}
	s, err := server.New(server.Config{Map: m, Host: h, Listen: listen, Node: -1, Workers: workers, Staleness: staleness, Tables: []table.Spec{rowsSpec}})
	if err != nil {
		return "", nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(ctx) // clients see their end of a failure
	}()
	return s.Addr(), ended, nil
}

// task is a step that has been read.
type task struct {
	rows    int // that it pulls and pushes
	compute time.Duration
}

// turn is a task in a line.
type turn struct {
	task
	set        *client.Rows
	clock      uint64
	pull, push client.Call
}

// member is a worker whose values are a real server's, and whose computing sleeps. It is
// the Work of a line.
type member struct {
	c     *client.Client
	keys  []uint64 // of the largest task; each takes the first of them
	index []int32
	clock uint64
	read  chan task
	free  []*turn
	all   []*turn
	pace  pace
}

// newMember connects, and makes the rows.
func newMember(ctx context.Context, h *dial.Host, addr string, worker, rows, turns int) (_ *member, err error) {
	m, err := across.OneServer(addr)
	if err != nil {
		return nil, err
	}
	w := &member{keys: make([]uint64, rows), index: make([]int32, rows)}
	for i := range w.keys {
		w.keys[i] = uint64(i + 1)
	}
	if w.c, err = client.Open(ctx, client.Config{Worker: worker, Map: m, Host: h, Node: -1}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	for range turns {
		set, err := w.c.NewRows(rowsSpec)
		if err != nil {
			return nil, err
		}
		t := &turn{set: set}
		w.all = append(w.all, t)
		if err := errors.Join(w.plan(t, rows), w.c.Pull(set, 0, client.AnyClock, &t.pull), w.c.Wait(&t.pull)); err != nil {
			return nil, err
		}
		for i := range set.Grads() {
			set.Grads()[i] = 1
		}
	}
	w.free = append(w.free, w.all...)
	return w, nil
}

func (w *member) plan(t *turn, rows int) error {
	t.rows = rows
	return t.set.Plan([][]uint64{w.keys[:rows]}, [][]int32{w.index[:rows]})
}

// pushed is how often the first row was pushed by all workers, which have ended.
func (w *member) pushed() (int, error) {
	t := w.all[0]
	if err := errors.Join(w.plan(t, 1), w.c.Pull(t.set, 0, client.AnyClock, &t.pull), w.c.Wait(&t.pull)); err != nil {
		return 0, err
	}
	v := t.set.Values()
	if v[0] != v[rowFloats-1] {
		return 0, fmt.Errorf("pipeline: a row that is pushed as a whole has %g and %g", v[0], v[rowFloats-1])
	}
	return int(-v[0]), nil
}

func (w *member) close() {
	for _, t := range w.all {
		t.set.Close()
	}
	w.c.Close()
}

// Next is the reader's.
func (w *member) Next(ctx context.Context, wait bool) (*turn, pipe.State, error) {
	k, state, err := next(ctx, w.read, wait)
	if state != pipe.Got || err != nil {
		return nil, state, err
	}
	t := w.free[0]
	w.free = w.free[1:]
	t.compute = k.compute
	return t, pipe.Got, w.plan(t, k.rows)
}

// Pull asks the server.
func (w *member) Pull(_ context.Context, t *turn) error {
	t.clock = w.clock
	w.clock++
	return w.c.Pull(t.set, t.clock, 0, &t.pull)
}

// Pulled waits for it, or looks.
func (w *member) Pulled(t *turn, wait bool) (bool, error) { return w.ended(&t.pull, wait) }

// Compute sleeps.
func (w *member) Compute(t *turn, tick func() error) error { return w.pace.compute(t.compute, tick) }

// Push sends as much as was pulled.
func (w *member) Push(t *turn) error { return w.c.Push(t.set, t.clock, true, &t.push) }

// Pushed waits for it, or looks.
func (w *member) Pushed(t *turn, wait bool) (bool, error) { return w.ended(&t.push, wait) }

// Retire frees the turn.
func (w *member) Retire(t *turn) error {
	w.free = append(w.free, t)
	return nil
}

// Poll handles what has come, as one who computes does.
func (w *member) Poll() error { return w.c.Glance() }

func (w *member) ended(c *client.Call, wait bool) (bool, error) {
	if !wait && !c.Done() {
		return false, nil
	}
	return true, w.c.Wait(c)
}
