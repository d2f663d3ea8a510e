package sparse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"psrt/bench/across"
	"psrt/bench/report"
	"psrt/bench/rival"
	"psrt/rdma"
	"psrt/sched/client"
)

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, cfg Config) (_ *report.Report, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	r := &run{cfg: &cfg}
	if r.other, err = across.Open(ctx, cfg.Child, cfg.Transport, cfg, &r.there); err != nil {
		return nil, fmt.Errorf("sparse: %w", err)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if r.client, err = r.other.Connect(ctx, r.there.Server, 0); err != nil {
		return nil, err
	}
	out := &report.Report{Version: report.Version, Suite: cfg.Op, Transport: r.client.Transport(0),
		Time: time.Now(), Seed: cfg.Seed, Machine: report.ThisMachine(), Notes: notes(&cfg)}
	for i, d := range cfg.Dims {
		rows, err := r.measure(ctx, i, d)
		if err != nil {
			return nil, fmt.Errorf("rows of %d floats: %w", d, err)
		}
		out.Rows = append(out.Rows, rows...)
		out.Notes = append(out.Notes, compared(d, rows))
	}
	return out, nil
}

// run is the measuring side.
type run struct {
	cfg    *Config
	other  *across.Side
	there  addresses
	client *client.Client
	sides  []side
}

func (r *run) close() error {
	err := r.closeSides()
	if r.client != nil {
		r.client.Close()
	}
	return errors.Join(err, r.other.Close())
}

func (r *run) closeSides() error {
	var errs []error
	for _, s := range r.sides {
		errs = append(errs, s.close())
	}
	r.sides = nil
	return errors.Join(errs...)
}

// open makes all sides ready for rows of dim floats: every row exists.
func (r *run) open(ctx context.Context, i, dim int) error {
	limit, err := newBare(r.cfg, spec(r.cfg, i, false))
	if err != nil {
		return err
	}
	r.sides = append(r.sides, limit)
	ways := []bool{false}
	if r.cfg.Op == "push" {
		ways = append(ways, true)
	}
	for _, byKeys := range ways {
		mine, err := newOurs(r.cfg, r.client, spec(r.cfg, i, byKeys), byKeys)
		if err != nil {
			return err
		}
		r.sides = append(r.sides, mine)
	}
	conn, err := net.Dial("tcp", r.there.Sockets[i])
	if err != nil {
		return err
	}
	socket, err := newClassic(r.cfg, "rival over a socket", rival.NewClient(conn), dim, conn.Close)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	r.sides = append(r.sides, socket)
	end := &messages{}
	c, _, err := r.other.Host.Dial(ctx, r.there.Messages, []byte(strconv.Itoa(i)), 1, func(_ int, d rdma.Domain) (rdma.EndpointConfig, error) { return end.attach(d) })
	if err != nil {
		return err
	}
	shut := func() error { return errors.Join(c.Close(), end.close()) }
	stream, err := end.stream(c)
	if err != nil {
		return errors.Join(err, shut())
	}
	over, err := newClassic(r.cfg, "rival over "+c.Transport, rival.NewClient(stream), dim, shut)
	if err != nil {
		return errors.Join(err, shut())
	}
	r.sides = append(r.sides, over)
	return nil
}

// times of one side, in microseconds a batch: the median of each round; and
// the CPU seconds that both processes spent on a GB of values and gradients.
type times struct{ pull, push, cpu []float64 }

func (r *run) measure(ctx context.Context, i, dim int) (_ []report.Row, err error) {
	if err := r.open(ctx, i, dim); err != nil {
		return nil, err
	}
	l := newLoad(r.cfg, dim)
	medians := make([]times, len(r.sides))
	whole := make([]report.Histogram, len(r.sides))
	for round := range r.cfg.Rounds + 1 { // the first one warms up
		order := slices.Collect(indexes(len(r.sides), round))
		for _, k := range order {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			var pulls, pushes []float64
			before, err := r.other.CPUSeconds()
			if err != nil {
				return nil, err
			}
			for _, keys := range l.keys {
				pull, push, err := r.sides[k].step(keys, l.grads)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", r.sides[k].name(), err)
				}
				pulls, pushes = append(pulls, micros(pull)), append(pushes, micros(push))
				if round > 0 {
					whole[k].Record(map[string]time.Duration{"pull": pull, "push": push}[r.cfg.Op])
				}
			}
			after, err := r.other.CPUSeconds()
			if err != nil {
				return nil, err
			}
			if round > 0 {
				moved := 2 * len(l.keys) * r.cfg.Keys * dim * 4
				medians[k].cpu = append(medians[k].cpu, (after-before)/(float64(moved)/1e9))
				medians[k].pull = append(medians[k].pull, median(pulls))
				medians[k].push = append(medians[k].push, median(pushes))
			}
		}
	}
	sum, err := r.equal(l)
	if err != nil {
		return nil, err
	}
	rows := r.rows(dim, medians, whole, sum)
	return rows, r.closeSides()
}

// indexes yields 0..n-1 beginning with another one each round.
func indexes(n, round int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield((i + round) % n) {
				return
			}
		}
	}
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
