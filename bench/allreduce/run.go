package allreduce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/bench/report"
	"psrt/bench/turns"
)

// Suite is the report's name for it.
const Suite = "allreduce"

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, cfg Config) (_ *report.Report, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	r := &run{cfg: &cfg}
	if cfg.Rival {
		if r.rival, err = newRival(ctx, &cfg); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.rival.close()) }()
	}
	if r.team, err = newTeam(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("allreduce: %w", err)
	}
	defer r.team.close()
	for _, n := range cfg.Sizes {
		r.figures = append(r.figures, &figure{bytes: n})
	}
	for round := range cfg.Rounds + 1 { // the first one warms up
		if err := r.round(ctx, round); err != nil {
			return nil, err
		}
	}
	out := &report.Report{Version: report.Version, Suite: Suite, Transport: cfg.Transport, Time: time.Now(), Seed: cfg.Seed,
		Machine: report.ThisMachine(), Notes: r.notes()}
	for _, f := range r.figures {
		out.Rows = append(out.Rows, f.row(cfg.Ranks, cfg.Rival))
	}
	return out, nil
}

type run struct {
	cfg     *Config
	team    *team
	rival   *rival
	figures []*figure
}

// figure is what one size gathers over the rounds; times are a round's medians, in
// microseconds.
type figure struct {
	bytes                int
	times, limits, their []float64
	all                  []float64 // every iteration
	cpu                  float64
	plays                int
	checksum             uint32
}

// round lets everybody play every size once; whose turn is first changes.
func (r *run) round(ctx context.Context, round int) error {
	seed := uint32(r.cfg.Seed) + uint32(round)
	var theirs []said
	mine := make([]played, len(r.figures))
	parts := []func() error{
		func() error { return r.ours(ctx, round, seed, mine) },
		func() (err error) {
			if r.rival != nil {
				theirs, err = r.rival.play(ctx, seed)
			}
			return err
		},
	}
	for i := range parts {
		if err := parts[(i+round)%2](); err != nil {
			return err
		}
	}
	for i, s := range theirs {
		if s.checksum != mine[i].checksum {
			return fmt.Errorf("allreduce: %d bytes: the rival's result has the checksum %08x, ours %08x", r.cfg.Sizes[i], s.checksum, mine[i].checksum)
		}
		if round > 0 {
			r.figures[i].their = append(r.figures[i].their, s.micros)
		}
	}
	return nil
}

func (r *run) ours(ctx context.Context, round int, seed uint32, mine []played) error {
	for i, f := range r.figures {
		t := turn{Bytes: f.bytes, Iterations: r.cfg.iterations(f.bytes), Seed: seed}
		var limit played
		for k := range 2 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			t.Limit = (k+round)%2 == 1
			p, err := r.team.play(t)
			if err != nil {
				return err
			}
			if t.Limit {
				limit = p
			} else {
				mine[i] = p
			}
		}
		if round == 0 {
			continue
		}
		f.times, f.limits = append(f.times, mine[i].typical), append(f.limits, limit.typical)
		f.all = append(f.all, mine[i].micros...)
		f.plays += len(mine[i].micros)
		f.cpu += mine[i].cpu / (float64(t.Iterations+warmUp(t.Iterations)) * float64(f.bytes) / 1e9)
		f.checksum = mine[i].checksum
	}
	return nil
}

// row: bandwidths are the vector's bytes by the time of a call (algbw).
func (f *figure) row(ranks int, rival bool) report.Row {
	gbs := func(micros float64) float64 { return float64(f.bytes) / micros / 1e3 }
	typical := turns.Median(f.times)
	row := report.Row{
		Op: fmt.Sprintf("all-reduce of %d", ranks), Bytes: f.bytes, Iterations: f.plays,
		Bandwidth: &report.Bandwidth{Avg: gbs(typical), Peak: gbs(slices.Min(f.times)), Rate: 1 / typical},
		Limit:     gbs(turns.Median(f.limits)), Ratio: turns.Median(ratios(f.limits, f.times)),
		Collective: &report.Collective{BusGBs: gbs(typical) * 2 * float64(ranks-1) / float64(ranks), MinMicros: slices.Min(f.all), TypicalMicros: typical,
			P99Micros: quantile(f.all, .99)},
		CPUSecondsPerGB: f.cpu / float64(len(f.times)), Load: report.Load(), Checksum: fmt.Sprintf("%08x", f.checksum),
	}
	if rival {
		speed := slices.Sorted(slices.Values(ratios(f.their, f.times)))
		limit := slices.Sorted(slices.Values(ratios(f.their, f.limits)))
		n := len(speed)
		row.Rival = &report.Rival{Name: "OpenMPI", Value: gbs(turns.Median(f.their)), Ratio: turns.Median(speed), Least: speed[0], Lower: speed[n/4],
			Upper: speed[(3*n-1)/4], Most: speed[n-1], Limit: turns.Median(limit), LimitLeast: limit[0], LimitMost: limit[n-1], Rounds: n}
	}
	return row
}

func ratios(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	return out
}

func quantile(v []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

func (r *run) notes() []string {
	notes := []string{
		"avg: the vector's bytes by the time of a call at the slowest rank, median of its iterations, then of the rounds; busbw: times 2(n-1)/n, what each rank sends and receives",
		"limit: within a host, every rank copies its vector once, all at once (as many bytes as an all-reduce of two moves); over tcp, plain streams around the ring of 2(n-1)/n vectors, by one thread of a rank that never sleeps",
		"every element of every rank's result is held against the sum; checksums of all ranks, and of the rival's, are one",
	}
	if r.team.bound {
		notes = append(notes, "each rank has a core of its own, as mpirun binds two by default")
	}
	for _, t := range r.team.transports {
		notes = append(notes, "rank 0 to "+t)
	}
	if r.rival != nil {
		notes = append(notes, "rival: MPI_Allreduce in as many processes, mpirun "+fmt.Sprint(r.rival.args()[:len(r.rival.args())-1])+"; it takes turns round by round, ratios above 1: ours is faster")
	}
	return notes
}
