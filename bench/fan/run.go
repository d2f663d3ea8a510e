package fan

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/bench/child"
	"psrt/bench/report"
)

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, cfg Config) (_ *report.Report, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &runner{cfg: &cfg, token: make([]byte, 32), listen: "127.0.0.1:0"}
	_, _ = rand.Read(r.token)
	inServer, inWorkers := cfg.Child, cfg.Child
	if cfg.Link == LinkVeth {
		w, err := newWire(ctx, &cfg)
		if err != nil {
			return nil, err
		}
		defer w.close()
		r.listen = serverAddr + ":0"
		inServer, inWorkers = within(w.server, cfg.Child), within(w.workers, cfg.Child)
	}
	if r.server, err = child.Start(ctx, inServer); err != nil {
		return nil, err
	}
	defer r.server.Close(cancel)
	if r.workers, err = child.Start(ctx, inWorkers); err != nil {
		return nil, err
	}
	defer r.workers.Close(cancel)
	a, err := r.tell(r.server, order{Do: "sink", Address: r.listen})
	if err != nil {
		return nil, err
	}
	r.sink = a.Address
	return r.measure(ctx)
}

// within is a command inside a network namespace.
func within(name string, c child.Command) child.Command {
	return child.Command{Path: "ip", Args: append([]string{"netns", "exec", name, c.Path}, c.Args...), Env: c.Env}
}

// runner is the measuring side.
type runner struct {
	cfg             *Config
	token           []byte
	listen, sink    string
	server, workers *child.Child
}

func (r *runner) tell(c *child.Child, o order) (a answer, err error) {
	o.Config, o.Token, o.Millis = *r.cfg, r.token, r.cfg.Duration.Milliseconds()
	if err := c.Tell(o); err != nil {
		return a, err
	}
	if err := c.Hear(&a); err != nil {
		return a, err
	}
	if a.Err != "" {
		return a, errors.New(a.Err)
	}
	return a, nil
}

// point is one number of workers in one mode, of one round.
type point struct {
	goodput, limit, jain float64 // bytes/s
	idle, busy           []float64
	cpuPerGB             float64
	fanIn                report.FanIn
	pushes               uint64
}

func (r *runner) measure(ctx context.Context) (*report.Report, error) {
	out := &report.Report{Version: report.Version, Suite: "fanin", Transport: r.cfg.Transport, Time: time.Now(), Seed: r.cfg.Seed,
		Machine: report.ThisMachine(), Notes: r.notes()}
	points := map[string][]point{}
	key := func(mode string, n int) string { return fmt.Sprintf("%s, %d workers", mode, n) }
	for range r.cfg.Rounds {
		for _, n := range r.cfg.Workers {
			for _, mode := range r.cfg.Modes {
				if err := context.Cause(ctx); err != nil {
					return nil, err
				}
				p, err := r.point(mode, n)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", key(mode, n), err)
				}
				points[key(mode, n)] = append(points[key(mode, n)], p)
			}
		}
	}
	for _, mode := range r.cfg.Modes {
		first := 0.0
		for _, n := range r.cfg.Workers {
			row := r.row(key(mode, n), points[key(mode, n)])
			if first == 0 {
				first = row.Bandwidth.Avg
			}
			row.FanIn.Workers, row.FanIn.Mode, row.FanIn.Share = n, mode, row.Bandwidth.Avg/first
			out.Rows = append(out.Rows, row)
		}
	}
	return out, nil
}

// point measures the limit, then the real thing.
func (r *runner) point(mode string, n int) (p point, err error) {
	raw, err := r.tell(r.workers, order{Do: "send", Address: r.sink})
	if err != nil {
		return p, fmt.Errorf("raw stream: %w", err)
	}
	p.limit = perSecond(raw)
	s, err := r.tell(r.server, order{Do: "serve", Address: r.listen, Mode: mode, Workers: n})
	if err != nil {
		return p, err
	}
	before := rnr()
	a, err := r.tell(r.workers, order{Do: "push", Address: s.Address, Workers: n})
	if err != nil {
		return p, err
	}
	end, err := r.tell(r.server, order{Do: "stop"})
	if err != nil {
		return p, err
	}
	if a.Sum != float64(a.Pushes) {
		return p, fmt.Errorf("fan: %d pushes were acknowledged, the vector holds the sum of %g: one was lost or applied twice", a.Pushes, a.Sum)
	}
	p.goodput, p.jain, p.idle, p.busy, p.pushes = perSecond(a), jain(a.PerWorker), a.Idle, a.Busy, a.Pushes
	p.cpuPerGB = (a.CPU + end.CPU) / (float64(a.Pushes) * float64(r.cfg.PushBytes) / 1e9)
	p.fanIn = report.FanIn{Resent: a.Resent, RNR: rnr() - before, Bytes: a.PerWorker}
	for _, f := range end.FanIn {
		p.fanIn.Chunk, p.fanIn.Chunks = int(f.ChunkBytes), int(f.WindowBytes/f.ChunkBytes)
	}
	return p, nil
}

func (r *runner) row(op string, points []point) report.Row {
	of := func(f func(point) float64) float64 {
		var v []float64
		for _, p := range points {
			v = append(v, f(p))
		}
		slices.Sort(v)
		return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	}
	last := points[len(points)-1]
	f := last.fanIn
	f.Jain = of(func(p point) float64 { return p.jain })
	f.IdleP99, f.PullP50 = of(func(p point) float64 { return p.idle[1] }), of(func(p point) float64 { return p.busy[0] })
	f.PullP99 = of(func(p point) float64 { return p.busy[1] })
	row := report.Row{Op: op, Bytes: r.cfg.PushBytes, FanIn: &f, Load: report.Load(), Checksum: fmt.Sprintf("%08x", last.pushes)}
	row.Limit = of(func(p point) float64 { return p.limit }) / 1e9
	row.Bandwidth = &report.Bandwidth{Avg: of(func(p point) float64 { return p.goodput }) / 1e9}
	row.Ratio = of(func(p point) float64 { return p.goodput / p.limit })
	row.CPUSecondsPerGB = of(func(p point) float64 { return p.cpuPerGB })
	row.Bandwidth.Rate = row.Bandwidth.Avg * 1e3 / float64(r.cfg.PushBytes)
	for _, p := range points {
		row.Iterations += int(p.pushes)
		row.Bandwidth.Peak = max(row.Bandwidth.Peak, p.goodput/1e9)
		f.RNR = max(f.RNR, p.fanIn.RNR)
	}
	if f.Chunk > 0 {
		f.Bound = f.IdleP99 + float64((f.Chunks+1)*f.Chunk)/(row.Limit*1e3)
	}
	return row
}

func perSecond(a answer) float64 { return float64(a.Bytes) / (float64(max(a.Nanos, 1)) / 1e9) }

// jain is Jain's index of fairness (DEC-TR-301, 1984): 1 where all have the
// same, 1/n where one has all.
func jain(v []int64) float64 {
	var sum, squares float64
	for _, x := range v {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(v)) * squares)
}

func (r *runner) notes() []string {
	link := fmt.Sprintf("link: a veth between two network namespaces, %.3g Gb/s towards the server, which holds %d KiB", float64(r.cfg.BitsPerSec)/1e9, r.cfg.QueueBytes>>10)
	if r.cfg.Link == LinkNone {
		link = "link: none, loopback"
	}
	return []string{
		link,
		"limit: one raw TCP stream over the same link, measured before each row",
		"avg: bytes of pushes that were landed, summed and acknowledged, per second; of first: divided by that of the first row of its mode",
		"pull: 4 rows of 16 floats, again and again beside the pushes; idle: before them; bound: idle p99 and k+1 chunks at the limit's rate",
		"checksum: pushes of the last round, all in the server's vector exactly once; RNR: receiver-not-ready by the RDMA devices' counters",
	}
}
