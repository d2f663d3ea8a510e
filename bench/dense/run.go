package dense

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/bench/across"
	"psrt/bench/report"
)

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, cfg Config) (_ *report.Report, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	var servers []string
	side, err := across.Open(ctx, cfg.Child, cfg.Transport, cfg, &servers)
	if err != nil {
		return nil, fmt.Errorf("dense: %w", err)
	}
	r := &run{cfg: &cfg, side: side}
	defer func() { err = errors.Join(err, r.close(), side.Close()) }()
	if r.sums, err = newSums(&cfg); err != nil {
		return nil, err
	}
	for i, n := range cfg.Workers {
		t, err := newTeam(ctx, &cfg, side, servers[i], n)
		if err != nil {
			return nil, fmt.Errorf("dense: %d workers: %w", n, err)
		}
		r.teams = append(r.teams, t)
	}
	out := &report.Report{Version: report.Version, Suite: "push", Transport: r.teams[0].members[0].c.Transport(0),
		Time: time.Now(), Seed: cfg.Seed, Machine: report.ThisMachine(), Notes: notes(&cfg)}
	out.Rows, err = r.measure(ctx)
	return out, err
}

type run struct {
	cfg   *Config
	side  *across.Side
	sums  *sums
	teams []*team
}

func (r *run) close() error {
	for _, t := range r.teams {
		t.close()
	}
	if r.sums == nil {
		return nil
	}
	return r.sums.close()
}

// figure is what one row gathers over the rounds.
type figure struct {
	op     string
	bytes  int // of one play
	play   func() error
	team   *team // nil: a sum without a server, whose limit is a scan
	plays  int
	gbs    []float64 // by round, as what follows
	limits []float64
	ratios []float64
	cpu    []float64 // seconds a GB
}

func (r *run) figures() []*figure {
	s := r.sums
	kernel := func(op string, f func()) *figure {
		return &figure{op: fmt.Sprintf("sum of %d, %s", len(s.sources), op), bytes: s.bytes(), play: func() error { f(); return nil }}
	}
	all := []*figure{kernel("one pass", s.onePass), kernel("tree", s.tree), kernel("copy, then add", s.copyThenAdd)}
	for _, t := range r.teams {
		for _, add := range []bool{true, false} {
			on := map[bool]string{true: "sum-on", false: "sum-off"}[add]
			f := &figure{op: fmt.Sprintf("push of %d, %s", len(t.members), on), bytes: len(t.members) * r.cfg.Bytes, team: t}
			f.play = func() error {
				_, err := t.step(add)
				return err
			}
			all = append(all, f)
		}
	}
	return all
}

func (r *run) measure(ctx context.Context) ([]report.Row, error) {
	if err := r.sums.check(); err != nil {
		return nil, err
	}
	figures := r.figures()
	for round := range r.cfg.Rounds + 1 { // the first one warms up
		for i := range figures {
			f := figures[(i+round)%len(figures)]
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			if err := r.round(f, round > 0); err != nil {
				return nil, fmt.Errorf("%s: %w", f.op, err)
			}
		}
	}
	sums := map[*team]uint32{}
	for _, t := range r.teams {
		var err error
		if sums[t], err = t.check(); err != nil {
			return nil, err
		}
	}
	return r.rows(figures, sums), nil
}

// round is a limit beside some plays of one row.
func (r *run) round(f *figure, counts bool) error {
	limit := r.limit(f)
	before, err := r.side.CPUSeconds()
	if err != nil {
		return err
	}
	var each []float64
	for range r.cfg.Steps {
		var failed error
		each = append(each, gbs(f.bytes, func() { failed = f.play() }))
		if failed != nil {
			return failed
		}
	}
	after, err := r.side.CPUSeconds()
	if err != nil || !counts {
		return err
	}
	f.plays += len(each)
	f.gbs = append(f.gbs, median(each))
	f.limits = append(f.limits, limit)
	f.ratios = append(f.ratios, median(each)/limit)
	f.cpu = append(f.cpu, (after-before)/(float64(f.bytes*len(each))/1e9))
	return nil
}

// limit is the median of as many scans as there are sums, or one memcpy.
func (r *run) limit(f *figure) float64 {
	if f.team != nil {
		return gbs(bulkBytes, r.sums.memcpy)
	}
	var each []float64
	for range r.cfg.Steps {
		each = append(each, gbs(r.sums.bytes(), r.sums.scan))
	}
	return median(each)
}
