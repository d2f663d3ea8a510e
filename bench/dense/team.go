package dense

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"time"

	"psrt/bench/across"
	"psrt/rdma/mem"
	"psrt/sched/client"
	"psrt/sched/densemap"
)

// team is the workers of one server, all driven by one goroutine.
type team struct {
	members []member
	clock   uint64
	added   int // steps whose gradients were added
	floats  int
}

type member struct {
	c     *client.Client
	d     *client.Dense
	ticks *client.Rows
	calls [2]client.Call
}

func (t *team) close() {
	for _, m := range t.members {
		if m.d != nil {
			m.d.Close()
		}
		if m.ticks != nil {
			m.ticks.Close()
		}
		m.c.Close()
	}
}

// newTeam connects n workers. Gradients are small whole numbers, the same in
// every step.
func newTeam(ctx context.Context, c *Config, side *across.Side, addr string, n int) (_ *team, err error) {
	t := &team{floats: c.Bytes / 4}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	blocks := (t.floats + densemap.BlockFloats - 1) / densemap.BlockFloats
	for i := range n {
		w := member{}
		if w.c, err = side.Connect(ctx, addr, i); err != nil {
			return nil, err
		}
		t.members = append(t.members, w)
		at := &t.members[i]
		if at.d, err = w.c.NewDense(t.floats, blocks); err != nil {
			return nil, err
		}
		if at.ticks, err = w.c.NewRows(ticks); err != nil {
			return nil, err
		}
		if err = at.ticks.Plan(nil, nil); err != nil {
			return nil, err
		}
		r := rand.New(rand.NewPCG(c.Seed, uint64(i)))
		for j := range at.d.Grads() {
			at.d.Grads()[j] = float32(r.IntN(3) - 1)
		}
	}
	return t, nil
}

// step pushes of all workers; it ends when the server has answered all, which
// it does when they are in its values. Without add the server is told of
// vectors that count for nothing.
func (t *team) step(add bool) (time.Duration, error) {
	start := time.Now()
	for i := range t.members {
		m := &t.members[i]
		if err := m.c.PushDense(m.d, t.clock, add, &m.calls[0]); err != nil {
			return 0, err
		}
		if err := m.c.Push(m.ticks, t.clock, true, &m.calls[1]); err != nil {
			return 0, err
		}
	}
	if err := t.wait(start.Add(patience)); err != nil {
		return 0, err
	}
	took := time.Since(start)
	t.clock++
	if add {
		t.added++
	}
	return took, nil
}

// patience bounds one step.
const patience = 20 * time.Second

// wait serves all workers: a server may need any of them to answer another.
func (t *team) wait(deadline time.Time) error {
	for left := len(t.members); left > 0; {
		left = 0
		for i := range t.members {
			m := &t.members[i]
			if m.calls[0].Done() && m.calls[1].Done() {
				continue
			}
			left++
			if err := m.c.Poll(); err != nil {
				return err
			}
		}
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("dense: %d of %d workers have no answer after %v", left, len(t.members), patience)
		}
		runtime.Gosched()
	}
	for i := range t.members {
		m := &t.members[i]
		if err := errors.Join(m.c.Wait(&m.calls[0]), m.c.Wait(&m.calls[1])); err != nil {
			return err
		}
	}
	return nil
}

// check pulls the values and works them out from the gradients.
func (t *team) check() (uint32, error) {
	m := &t.members[0]
	var call client.Call
	if err := m.c.PullDense(m.d, t.clock, client.AnyClock, &call); err != nil {
		return 0, err
	}
	if err := m.c.Wait(&call); err != nil {
		return 0, err
	}
	for i, v := range m.d.Values() {
		sum := float32(0)
		for j := range t.members {
			sum += t.members[j].d.Grads()[i]
		}
		if want := -rate * sum * float32(t.added); v != want {
			return 0, fmt.Errorf("dense: %d workers: value %d is %v after %d steps, want %v: a push was lost or added twice", len(t.members), i, v, t.added, want)
		}
	}
	return crc32.ChecksumIEEE(mem.Bytes(m.d.Values())), nil
}
