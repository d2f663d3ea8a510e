package startup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"psrt/bench/cable"
	"psrt/bench/report"
	"psrt/sched/rendezvous"
)

// Run measures; seen is told what begins, and may be nil. The caller adds to the report
// who it is: program and commit.
func Run(ctx context.Context, cfg Config, seen func(step string)) (*report.Report, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if seen == nil {
		seen = func(string) {}
	}
	if err := errors.Join(os.WriteFile(cfg.data(), data(cfg.Seed), 0o600), os.WriteFile(cfg.token(), rendezvous.NewToken(), 0o600)); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	r := &report.Report{Version: report.Version, Suite: "start", Transport: "auto", Seed: cfg.Seed, Machine: report.ThisMachine(),
		Notes: []string{fmt.Sprintf("jobs of one step of %d examples; all have one digest", examples)}}
	digest := ""
	if slices.Contains(cfg.Parts, Launch) {
		if err := cfg.launches(ctx, seen, r, &digest); err != nil {
			return nil, err
		}
	}
	if slices.Contains(cfg.Parts, Preflight) {
		if err := cfg.preflights(ctx, seen, r, &digest); err != nil {
			return nil, err
		}
	}
	for i := range r.Rows {
		r.Rows[i].Checksum = digest[:min(8, len(digest))]
	}
	r.Time = time.Now()
	return r, nil
}

// data is examples in libffm's form.
func data(seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for i := range examples {
		fmt.Fprint(&b, i%2)
		for f := range fields {
			fmt.Fprintf(&b, " %d:%d:1", f, 1000*f+rng.IntN(100))
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// same holds a job to the digest of those before it.
func same(digest *string, s said) error {
	if *digest == "" {
		*digest = s.Digest
	}
	if s.Digest == "" || s.Digest != *digest {
		return fmt.Errorf("start: a job ends with digest %q, one before it with %q: they train the same", s.Digest, *digest)
	}
	return nil
}

// launches are jobs that psrt starts itself, in turns with as many processes that do nothing.
func (c *Config) launches(ctx context.Context, seen func(string), r *report.Report, digest *string) error {
	ranks := c.Servers + c.Workers
	var bare, jobs timed
	for round := range c.Rounds {
		seen(fmt.Sprintf("launch: round %d of %d", round+1, c.Rounds))
		took, err := c.bare(ctx, ranks)
		if err != nil {
			return err
		}
		s, err := run(ctx, c.Psrt, c.args(c.Servers, c.Workers))
		if err == nil && s.Step == 0 {
			err = errors.New("start: psrt train said no epoch")
		}
		if err := errors.Join(err, same(digest, s)); err != nil {
			return err
		}
		bare.note(took)
		jobs.note(s.Step)
	}
	limit := bare.row(fmt.Sprintf("%d processes", 1+ranks), 0)
	job := jobs.row(fmt.Sprintf("start %d+%d", c.Servers, c.Workers), limit.Latency.Typical)
	r.Rows = append(r.Rows, job, limit)
	r.Notes = append(r.Notes, fmt.Sprintf("start %d+%d: from psrt train with so many servers and workers until it says that the first epoch, one step, is over; limit: psrt version, and then %d at once. %s",
		c.Servers, c.Workers, ranks, held(&job, launchBar)))
	return nil
}

// bare is what a machine takes to start a launcher's process, and then its ranks'.
func (c *Config) bare(ctx context.Context, ranks int) (time.Duration, error) {
	began := time.Now()
	for _, n := range []int{1, ranks} {
		errs := make(chan error, n)
		for range n {
			go func() {
				p := exec.CommandContext(ctx, c.Psrt.Path, append(slices.Clone(c.Psrt.Args), "version")...)
				p.Env = append(os.Environ(), c.Psrt.Env...)
				if out, err := p.CombinedOutput(); err != nil {
					errs <- fmt.Errorf("start: %s version: %w: %.200s; make build makes it, --psrt names another", c.Psrt.Path, err, out)
					return
				}
				errs <- nil
			}()
		}
		var all error
		for range n {
			all = errors.Join(all, <-errs)
		}
		if all != nil {
			return 0, all
		}
	}
	return time.Since(began), nil
}

// preflights are jobs whose ranks are on hosts of their own.
func (c *Config) preflights(ctx context.Context, seen func(string), r *report.Report, digest *string) error {
	var all timed
	err := cable.Run(ctx, "start", cable.Veth, c.Part, *c, func(says *stationSays) (bool, error) {
		switch {
		case says.Err != "":
			return true, errors.New(says.Err)
		case says.Done:
			return true, nil
		}
		seen(fmt.Sprintf("preflight: round %d of %d", all.n+1, c.Rounds))
		if says.Of == nil {
			return false, nil
		}
		all.note(says.Of.Preflight)
		return false, same(digest, *says.Of)
	})
	if err != nil {
		return err
	}
	row := all.row(fmt.Sprintf("preflight %d", c.Hosts), preflightBar.Seconds()*1e6)
	r.Rows = append(r.Rows, row)
	r.Notes = append(r.Notes, fmt.Sprintf("preflight %d: what psrt says that the trial of all connections between so many ranks took, each on a host (namespace) of its own; limit: the bar. %s", c.Hosts, held(&row, preflightBar)))
	return nil
}

// timed are the rounds of a row.
type timed struct {
	h report.Histogram
	n int
}

func (t *timed) note(took time.Duration) { t.h.Record(took); t.n++ }

// row has limit in microseconds; 0: there is none.
func (t *timed) row(op string, limit float64) report.Row {
	row := report.Row{Op: op, Iterations: t.n, Latency: t.h.Latency(), Limit: limit, Load: report.Load()}
	if limit > 0 {
		row.Ratio = row.Latency.Typical / limit
	}
	return row
}

// held compares a row's median with its bar.
func held(row *report.Row, bar time.Duration) string {
	how := "kept"
	if row.Latency.Typical > bar.Seconds()*1e6 {
		how = "missed"
	}
	return fmt.Sprintf("Median %.0f ms, slowest round %.0f ms; bar %d ms, %s", row.Latency.Typical/1e3, row.Latency.P999/1e3, bar.Milliseconds(), how)
}
