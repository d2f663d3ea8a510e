package recover

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"psrt/bench/report"
	"psrt/tiers/ckpt"
)

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, c Config) (_ *report.Report, err error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	out := &report.Report{Version: report.Version, Suite: "recover", Transport: "none", Time: time.Now(), Seed: c.Seed,
		Machine: report.ThisMachine(), Notes: []string{
			fmt.Sprintf("%d rows of %d bytes in %d lanes; deltas of %d %% of them", c.Rows, c.rowBytes(), c.Lanes, c.Dirty),
			"restart: a base and a delta loaded into new tables, after the machine has forgotten the files; limit: the same files read by as many readers, without a look at what they hold",
			"the tables loaded have the digest of those written",
		}}
	written, err := newLanes(&c, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, written.close()) }()
	if err := written.touch(ctx, 1); err != nil {
		return nil, err
	}
	dir := filepath.Join(c.Dir, "history")
	if err := writeAll(ctx, &c, written, dir, out); err != nil {
		return nil, err
	}
	want, err := written.digest()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(written.close(), restarts(ctx, &c, dir, want, out)); err != nil || len(c.SSD) == 0 {
		return out, err
	}
	return out, storeRestarts(ctx, &c, dir, want, out)
}

func (c *Config) rowBytes() int { s := c.spec(); return s.RowBytes() }

// writeAll makes the history that is loaded, and beside it a quantised delta of
// the same rows.
func writeAll(ctx context.Context, c *Config, l *lanes, dir string, out *report.Report) (err error) {
	h, err := ckpt.OpenHistory(ctx, dir, ckpt.HistoryOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	full := int64(0)
	for _, g := range []struct {
		name   string
		o      ckpt.NextOptions
		wanted float64
	}{
		{name: "base"},
		{"delta for serving, int8", ckpt.NextOptions{Delta: true, WeightsOnly: true, Quantise: ckpt.QuantInt8}, 15},
		{"delta", ckpt.NextOptions{Delta: true}, 8},
	} {
		if g.o.WeightsOnly {
			if err := l.touch(ctx, 100/c.Dirty); err != nil {
				return err
			}
		}
		if g.name == "delta" { // it follows the base, not what is for serving
			if err := h.Resume(ctx, 1); err != nil {
				return err
			}
		}
		start, cpu := time.Now(), processCPU()
		bytes, err := l.write(ctx, h, g.o)
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		took := time.Since(start).Seconds()
		row := report.Row{Op: g.name, Bytes: int(bytes), Iterations: 1, CPUSecondsPerGB: (processCPU() - cpu) / (float64(bytes) / 1e9), Load: report.Load(),
			Bandwidth: &report.Bandwidth{Avg: float64(bytes) / 1e9 / took, Peak: float64(bytes) / 1e9 / took, Rate: 1e-6 / took}}
		out.Rows = append(out.Rows, row)
		if full == 0 {
			full = bytes
			continue
		}
		out.Notes = append(out.Notes, fmt.Sprintf("%s: 1/%.1f of the base's bytes (wanted at most 1/%.0f at 10 %%)", g.name, float64(full)/float64(bytes), g.wanted))
	}
	return nil
}

// forecast reads the files of a history, says how fast that was, in bytes a second, and
// what it says of a restart, and has the machine forget them again.
func (c *Config) forecast(ctx context.Context, dir string) (rate float64, e ckpt.Estimate, err error) {
	m, err := ckpt.OpenTrainable(ctx, dir)
	if err != nil {
		return 0, e, err
	}
	if rate, err = m.MeasureRead(ctx, c.Lanes, 1<<62, true); err != nil {
		return 0, e, err
	}
	_, err = m.MeasureRead(ctx, 1, 1, true) // next to nothing
	return rate, m.EstimateLoad(rate, c.Lanes, nil), err
}

// restarts loads the history, again and again.
func restarts(ctx context.Context, c *Config, dir, want string, out *report.Report) error {
	k := &timed{op: "restart"}
	for range c.Rounds {
		rate, e, err := c.forecast(ctx, dir)
		if err != nil {
			return err
		}
		start, before := time.Now(), processCPU()
		m, err := ckpt.OpenTrainable(ctx, dir)
		if err != nil {
			return err
		}
		l, err := newLanes(c, false)
		if err != nil {
			return err
		}
		err = l.load(ctx, m)
		took := time.Since(start).Seconds()
		cpu := processCPU() - before
		got := ""
		if err == nil {
			got, err = l.digest()
		}
		if err = errors.Join(err, l.close()); err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("recover: the tables loaded have digest %s, those written had %s", got, want)
		}
		k.note(e.Bytes, rate, took, e.Time.Seconds(), cpu)
	}
	k.add(out, want[:8])
	return nil
}

func processCPU() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
