package fan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"psrt/bench/report"
	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/densemap"
	"psrt/sched/psmsg"
)

// crowd is one mode's workers, and the probe.
type crowd struct {
	cfg     *Config
	mode    string
	host    *dial.Host
	workers []*worker
	probe   *probe
	alone   float64 // goodput of the fewest
}

// worker pushes its vector again and again.
type worker struct {
	client *client.Client
	dense  *client.Dense
	calls  []client.Call
	acked  atomic.Int64 // pushes summed at the server
}

// open connects all workers and the probe.
func (c *crowd) open(ctx context.Context, token []byte, addr string) (err error) {
	if c.host, err = dial.New(c.cfg.dial(token, c.cfg.WorkerDevice)); err != nil {
		return err
	}
	m, err := oneServer(addr)
	if err != nil {
		return err
	}
	blocks, err := densemap.Cut(ranges(c.cfg.floats()))
	if err != nil {
		return err
	}
	for i := range c.cfg.most() + 1 {
		cl, err := client.Open(ctx, client.Config{Worker: i, Map: m, Host: c.host, Timeout: patience, Node: -1})
		if err != nil {
			return err
		}
		if i == c.cfg.most() {
			c.probe = &probe{client: cl}
			return c.probe.open(c.cfg.floats(), len(blocks))
		}
		w := &worker{client: cl, calls: make([]client.Call, c.cfg.Depth)}
		c.workers = append(c.workers, w)
		if w.dense, err = cl.NewDense(c.cfg.floats(), len(blocks)); err != nil {
			return err
		}
		fill(w.dense.Grads(), c.cfg.Seed, i)
	}
	return nil
}

func (c *crowd) close() error {
	for _, w := range c.workers {
		if w.dense != nil {
			w.dense.Close()
		}
		w.client.Close()
	}
	if c.probe != nil {
		c.probe.close()
	}
	if c.host != nil {
		return c.host.Close()
	}
	return nil
}

// push sends the worker's vector, Depth at a time, until stop, and waits for
// what is then on its way. The gradients never change, so all may be read at
// once; the clock stays where it is, as an asynchronous step may have any number
// of pushes.
func (w *worker) push(stop *atomic.Bool) error {
	settle := func(call *client.Call) error {
		if err := w.client.Wait(call); err != nil {
			return err
		}
		if call.Refused != 0 {
			return fmt.Errorf("fan-in: the server refused %d blocks of a push", call.Refused)
		}
		w.acked.Add(1)
		return nil
	}
	posted := 0
	for ; !stop.Load(); posted++ {
		call := &w.calls[posted%len(w.calls)]
		if posted >= len(w.calls) {
			if err := settle(call); err != nil {
				return err
			}
		}
		if err := w.client.PushDense(w.dense, 0, true, call); err != nil {
			return err
		}
	}
	for i := max(0, posted-len(w.calls)); i < posted; i++ {
		if err := settle(&w.calls[i%len(w.calls)]); err != nil {
			return err
		}
	}
	return nil
}

// counts are the pushes of each worker that the server has summed.
func (c *crowd) counts(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = int(c.workers[i].acked.Load())
	}
	return list
}

// load lets n workers push; within runs when each has had an answer, then the
// workers stop and what is on its way is awaited.
func (c *crowd) load(ctx context.Context, n int, within func() error) error {
	before := c.counts(n)
	var stop atomic.Bool
	failed := make(chan error, n)
	var wg sync.WaitGroup
	for _, w := range c.workers[:n] {
		wg.Go(func() {
			if err := w.push(&stop); err != nil {
				failed <- err
			}
		})
	}
	err := c.answered(ctx, before, failed)
	if err == nil {
		err = within()
	}
	stop.Store(true)
	wg.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	return err
}

// answered waits until every worker has had one answer more than before.
func (c *crowd) answered(ctx context.Context, before []int, failed <-chan error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for i := 0; i < len(before); {
		if int(c.workers[i].acked.Load()) > before[i] {
			i++
			continue
		}
		select {
		case <-tick.C:
		case err := <-failed:
			return err
		case <-late:
			return fmt.Errorf("fan-in: worker %d of %d had no answer for %v", i, len(before), patience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// probe pulls one row again and again.
type probe struct {
	client *client.Client
	rows   *client.Rows
	dense  *client.Dense // to look at the sums
}

// probeRequest is what a pull of the probe sends: its header and a key.
const probeRequest = psmsg.RequestBytes + 8

// probeEvery is the time between pulls.
const probeEvery = 300 * time.Microsecond

// open makes the row, with values that every pull must bring.
func (p *probe) open(floats, blocks int) (err error) {
	if p.dense, err = p.client.NewDense(floats, blocks); err != nil {
		return err
	}
	if p.rows, err = p.client.NewRows(probeTable()); err != nil {
		return err
	}
	if err := p.rows.Plan([][]uint64{{probeKey}}, [][]int32{make([]int32, 1)}); err != nil {
		return err
	}
	var call client.Call
	if err := p.client.Pull(p.rows, 0, client.AnyClock, &call); err != nil {
		return err
	}
	if err := p.client.Wait(&call); err != nil {
		return err
	}
	grads := p.rows.Grads()
	for i := range grads {
		grads[i] = -float32(i + 1) // SGD subtracts
	}
	if err := p.client.Push(p.rows, 0, false, &call); err != nil {
		return err
	}
	return p.client.Wait(&call)
}

func (p *probe) close() {
	if p.rows != nil {
		p.rows.Close()
	}
	if p.dense != nil {
		p.dense.Close()
	}
	p.client.Close()
}

// pull asks for the row once and looks at what came.
func (p *probe) pull() (time.Duration, error) {
	v := p.rows.Values()
	for i := range v {
		v[i] = float32(math.NaN())
	}
	var call client.Call
	start := time.Now()
	if err := p.client.Pull(p.rows, 0, client.ReadOnly|client.AnyClock, &call); err != nil {
		return 0, err
	}
	if err := p.client.Wait(&call); err != nil {
		return 0, err
	}
	took := time.Since(start)
	for i := range v {
		if v[i] != float32(i+1) {
			return 0, fmt.Errorf("fan-in: the probe pulled %g as element %d, want %d", v[i], i, i+1)
		}
	}
	return took, nil
}

// during pulls for so long.
func (p *probe) during(ctx context.Context, d time.Duration, h *report.Histogram) error {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(probeEvery) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		took, err := p.pull()
		if err != nil {
			return err
		}
		h.Record(took)
	}
	return nil
}

// sums pulls the dense vector.
func (p *probe) sums() ([]float32, error) {
	var call client.Call
	if err := p.client.PullDense(p.dense, 0, client.AnyClock, &call); err != nil {
		return nil, err
	}
	return p.dense.Values(), p.client.Wait(&call)
}

// policy is what the server's grants are about; zero where it grants nothing.
func (p *probe) policy(ctx context.Context) (psmsg.FanInStats, error) {
	var s psmsg.StatsReply
	if err := p.client.CallServer(ctx, 0, psmsg.MethodStats, struct{}{}, &s); err != nil || len(s.FanIn) == 0 {
		return psmsg.FanInStats{}, err
	}
	return s.FanIn[0], nil
}
