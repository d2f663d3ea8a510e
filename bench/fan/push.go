package fan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"psrt/bench/report"
	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/densemap"
	"psrt/sched/usage"
)

// patience bounds one call.
const patience = 60 * time.Second

// crowd is the workers of one measurement, the last of which only pulls.
type crowd struct {
	clients []*client.Client
	vectors []*client.Dense
	host    *dial.Host

	measuring atomic.Bool
	ended     atomic.Bool
	bytes     []atomic.Int64 // by worker, while measuring
	pushes    atomic.Uint64
}

// push lets the workers push for a while, after the small pulls have had the
// link for themselves.
func push(o order) (a answer, err error) {
	c := &crowd{bytes: make([]atomic.Int64, o.Workers)}
	defer c.close()
	if err := c.open(o); err != nil {
		return a, err
	}
	span := time.Duration(o.Millis) * time.Millisecond
	p, err := newProber(c.clients[o.Workers])
	if err != nil {
		return a, err
	}
	defer p.rows.Close()
	if err := p.run(span, &p.warm); err != nil { // the first pull makes the rows
		return a, err
	}
	if err := p.run(span, &p.idle); err != nil {
		return a, err
	}
	resent, _ := segmentsResent()
	_, cpu := usage.Process()
	var all sync.WaitGroup
	errs := make([]error, o.Workers)
	for i := range o.Workers {
		all.Go(func() {
			if errs[i] = c.work(i); errs[i] != nil {
				c.ended.Store(true)
			}
		})
	}
	err = p.run(span/2, &p.warm)
	c.measuring.Store(true)
	start := time.Now()
	if err == nil {
		err = p.run(span, &p.busy)
	}
	c.measuring.Store(false)
	a.Nanos = int64(time.Since(start))
	_, now := usage.Process()
	a.CPU = now - cpu
	c.ended.Store(true)
	all.Wait()
	if err = errors.Join(append(errs, err)...); err != nil {
		return a, err
	}
	after, _ := segmentsResent()
	a.Resent = after - resent
	for i := range c.bytes {
		a.PerWorker = append(a.PerWorker, c.bytes[i].Load())
		a.Bytes += c.bytes[i].Load()
	}
	a.Pushes = c.pushes.Load()
	a.Idle, a.Busy = p.quantiles(&p.idle), p.quantiles(&p.busy)
	a.Sum, err = c.sum(o.Workers)
	return a, err
}

func (c *crowd) open(o order) (err error) {
	if c.host, err = dial.New(dial.Config{Transport: o.Config.Transport, Token: o.Token}); err != nil {
		return err
	}
	m, err := oneServer(o.Address)
	if err != nil {
		return err
	}
	floats := o.Config.PushBytes / 4
	for i := range o.Workers + 1 {
		cl, err := client.Open(context.Background(), client.Config{Worker: i, Map: m, Host: c.host, Node: -1, Timeout: patience})
		if err != nil {
			return err
		}
		c.clients = append(c.clients, cl)
		v, err := cl.NewDense(floats, (floats+densemap.BlockFloats-1)/densemap.BlockFloats)
		if err != nil {
			return err
		}
		c.vectors = append(c.vectors, v)
		for k := range v.Grads() {
			v.Grads()[k] = 1
		}
	}
	return nil
}

// work pushes until the end, one push at a time.
func (c *crowd) work(i int) error {
	for !c.ended.Load() {
		var call client.Call
		if err := c.clients[i].PushDense(c.vectors[i], 0, true, &call); err != nil {
			return err
		}
		if err := c.clients[i].Wait(&call); err != nil {
			return err
		}
		c.pushes.Add(1)
		if c.measuring.Load() {
			c.bytes[i].Add(int64(len(c.vectors[i].Grads()) * 4))
		}
	}
	return nil
}

// sum is what every element of the vector holds, with its sign turned.
func (c *crowd) sum(prober int) (float64, error) {
	var call client.Call
	cl, v := c.clients[prober], c.vectors[prober]
	if err := cl.PullDense(v, 0, client.AnyClock, &call); err != nil {
		return 0, err
	}
	if err := cl.Wait(&call); err != nil {
		return 0, err
	}
	for i, x := range v.Values() {
		if x != v.Values()[0] {
			return 0, fmt.Errorf("fan: elements 0 and %d of the vector are %g and %g, were pushed alike: a push was lost or applied twice", i, v.Values()[0], x)
		}
	}
	return -float64(v.Values()[0]), nil
}

func (c *crowd) close() {
	for i, cl := range c.clients {
		cl.Close()
		if i < len(c.vectors) {
			c.vectors[i].Close()
		}
	}
	if c.host != nil {
		_ = c.host.Close()
	}
}

// prober pulls 256 bytes again and again.
type prober struct {
	c                *client.Client
	rows             *client.Rows
	warm, idle, busy report.Histogram
	first            bool
}

func newProber(c *client.Client) (*prober, error) {
	rows, err := c.NewRows(probed)
	if err != nil {
		return nil, err
	}
	keys := make([]uint64, probedRows)
	for i := range keys {
		keys[i] = uint64(i + 1)
	}
	return &prober{c: c, rows: rows, first: true}, rows.Plan([][]uint64{keys}, [][]int32{make([]int32, probedRows)})
}

// probePause is between two small pulls: they are to see the link, not to fill
// it.
const probePause = 500 * time.Microsecond

func (p *prober) run(span time.Duration, h *report.Histogram) error {
	for end := time.Now().Add(span); time.Now().Before(end); {
		var call client.Call
		option := client.AnyClock | client.ReadOnly
		if p.first {
			option, p.first = client.AnyClock, false
		}
		start := time.Now()
		if err := p.c.Pull(p.rows, 0, option, &call); err != nil {
			return err
		}
		if err := p.c.Wait(&call); err != nil {
			return err
		}
		h.Record(time.Since(start))
		time.Sleep(probePause)
	}
	return nil
}

func (p *prober) quantiles(h *report.Histogram) []float64 {
	return []float64{float64(h.Quantile(.5)) / 1e3, float64(h.Quantile(.99)) / 1e3}
}

// segmentsResent is this namespace's count.
func segmentsResent() (uint64, error) {
	b, err := os.ReadFile("/proc/self/net/snmp")
	if err != nil {
		return 0, err
	}
	var names []string
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != "Tcp:" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i, n := range names {
			if n == "RetransSegs" && i < len(f) {
				var v uint64
				_, err := fmt.Sscan(f[i], &v)
				return v, err
			}
		}
	}
	return 0, errors.New("fan: the kernel does not count resent segments")
}
