package pipeline

import (
	"context"
	"fmt"
	"time"

	"psrt/bench/cable"
	"psrt/bench/report"
	"psrt/sched/clock"
	"psrt/sched/pipe"
	"psrt/sched/pipe/settle"
)

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, cfg Config) (*report.Report, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.RateBits > 0 { // said before minutes have passed
		if err := cable.Tools(cable.Veth); err != nil {
			return nil, fmt.Errorf("pipeline: %w", err)
		}
	}
	out := &report.Report{Version: report.Version, Suite: "pipeline", Transport: "none", Time: time.Now(), Seed: cfg.Seed, Machine: report.ThisMachine()}
	for _, jitter := range []float64{.1, .3} {
		for i, name := range []string{"read", "link", "compute"} {
			row, note, err := overlap(ctx, &cfg, jitter, i, name)
			if err != nil {
				return nil, err
			}
			out.Rows, out.Notes = append(out.Rows, row), append(out.Notes, note)
		}
	}
	out.Notes = append(out.Notes, "ratio: the time of a step by that of the slowest stage in the same run; stages sleep, so that none takes a core from another")
	if cfg.RateBits > 0 {
		found, err := linked(ctx, &cfg)
		if err != nil {
			return nil, err
		}
		out.Rows, out.Notes = append(out.Rows, found.Rows...), append(out.Notes, found.Notes...)
	}
	if cfg.Straggler {
		notes, err := stragglers(ctx, &cfg)
		if err != nil {
			return nil, err
		}
		out.Notes = append(out.Notes, notes...)
	}
	if cfg.Real {
		notes, err := realStragglers(ctx, &cfg)
		if err != nil {
			return nil, err
		}
		out.Notes = append(out.Notes, notes...)
	}
	if cfg.Heter {
		notes, err := halves(ctx, &cfg)
		if err != nil {
			return nil, err
		}
		out.Notes = append(out.Notes, notes...)
	}
	return out, nil
}

// others is what a stage that is not the slowest takes of the slowest one's time.
const others = .7

// overlap runs a line of which one stage is the slowest.
func overlap(ctx context.Context, cfg *Config, jitter float64, slowest int, name string) (row report.Row, note string, err error) {
	fast := time.Duration(others * float64(cfg.Step))
	p := parts{fast, fast, fast}
	*[]*time.Duration{&p.read, &p.link, &p.compute}[slowest] = cfg.Step
	w := newWorld(ctx, p, jitter, cfg.Steps, cfg.Seed)
	defer w.close()
	l := pipe.Line{Depth: settle.NewDepth(1, 4), Pushes: 1, Meter: &pipe.Meter{}}
	began := time.Now()
	if err := pipe.Run(ctx, &l, w); err != nil {
		return row, "", err
	}
	wall := time.Since(began)
	w.close()
	longest := max(w.sum[0], w.sum[1], w.sum[2])
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(cfg.Steps) }
	ratio := wall.Seconds() / longest.Seconds()
	s := l.Meter.Summary(pipe.Stage{Name: "read", Seconds: w.sum[0].Seconds()})
	row = report.Row{Op: fmt.Sprintf("%s slowest, jitter %.0f %%", name, 100*jitter), Iterations: cfg.Steps,
		Latency: &report.Latency{Min: each(longest), Typical: each(wall), Avg: each(wall), P99: each(wall), P999: each(wall)},
		Limit:   each(longest), Ratio: ratio, Load: report.Load(), Checksum: fmt.Sprintf("%08x", s.Steps)}
	note = fmt.Sprintf("%s: a step %.2f ms, the slowest stage %.2f ms, ratio %.3f; busy: read %.3f, link %.3f, compute %.3f; %d ahead", row.Op,
		each(wall)/1e3, each(longest)/1e3, ratio, w.sum[0].Seconds()/wall.Seconds(), w.sum[1].Seconds()/wall.Seconds(), w.sum[2].Seconds()/wall.Seconds(), s.Depth)
	return row, note, nil
}

// virtualSteps is how many steps each worker makes in virtual time.
const virtualSteps = 20_000

// moves is the bound that --staleness MIN-MAX moves, beside those that stay.
var moves = clock.Mode{Least: 0, Most: 8}

// stragglers compares the kinds of consistency.
func stragglers(ctx context.Context, cfg *Config) (notes []string, err error) {
	var asp float64
	for _, mode := range []clock.Mode{clock.Fixed(clock.Async), clock.Fixed(8), moves, clock.Fixed(3), clock.Fixed(1), clock.Fixed(0)} {
		p, err := paceOf(cfg.Workers, virtualSteps, mode, cfg.Sigma, cfg.Seed)
		if err != nil {
			return nil, err
		}
		if asp == 0 {
			asp = p.speed
		}
		note := fmt.Sprintf("stragglers, %d workers, log-normal steps of sigma %g: %s makes %.3f of asp's steps; reads lack %.2f in the mean", cfg.Workers, cfg.Sigma, mode, p.speed/asp, p.stale)
		if mode.Moves() {
			note += fmt.Sprintf(", the bound is %.2f", p.bound)
		}
		notes = append(notes, note)
	}
	one, many, err := digests(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if one != many {
		return nil, fmt.Errorf("pipeline: bsp with %d workers has digest %s, one process %s", cfg.Workers, many, one)
	}
	return append(notes, fmt.Sprintf("bsp: %d workers and 2 servers give the digest of one process, %.16s", cfg.Workers, one)), nil
}
