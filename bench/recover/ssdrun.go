package recover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/tiers/ckpt"
)

// timed is one way to be back, over all rounds.
type timed struct {
	op                                         string
	bytes                                      int64
	speeds, limits, ratios, times, says, bound []float64
	cpu                                        float64

	written             int64
	writes, both, share []float64
}

// note adds a round: so many bytes, that at a rate would take says.
func (k *timed) note(bytes int64, rate, took, says, cpu float64) {
	gb := float64(bytes) / 1e9
	k.bytes = bytes
	k.speeds, k.limits, k.ratios = append(k.speeds, gb/took), append(k.limits, rate/1e9), append(k.ratios, gb/took/(rate/1e9))
	k.times, k.says, k.bound = append(k.times, took), append(k.says, says), append(k.bound, took/(1.2*float64(bytes)/rate+0.5))
	k.cpu += cpu
}

// wrote says that the last round had to write, too: so many bytes, at a rate.
func (k *timed) wrote(bytes int64, rate float64) {
	last := len(k.times) - 1
	limit := float64(k.bytes)/1e9/k.limits[last] + float64(bytes)/rate
	k.written, k.writes, k.both, k.share = bytes, append(k.writes, rate/1e9), append(k.both, limit), append(k.share, k.times[last]/(1.2*limit+0.5))
}

func (k *timed) add(out *report.Report, check string) {
	avg, n := turns.Median(k.speeds), float64(len(k.times))
	out.Rows = append(out.Rows, report.Row{Op: k.op, Bytes: int(k.bytes), Iterations: len(k.times), Limit: turns.Median(k.limits), Ratio: turns.Median(k.ratios),
		Bandwidth:       &report.Bandwidth{Avg: avg, Peak: avg, Rate: 1e-6 / turns.Median(k.times)},
		CPUSecondsPerGB: k.cpu / n / (float64(k.bytes) / 1e9), Load: report.Load(), Checksum: check})
	out.Notes = append(out.Notes, fmt.Sprintf("%s: predicted %.2f s, measured %.2f s, which is %.2f of 1.2 x (bytes / read rate) + .5 s",
		k.op, turns.Median(k.says), turns.Median(k.times), turns.Median(k.bound)))
	if len(k.both) > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%s: %.0f MB to read at %.2f GB/s and %.0f MB to write at %.2f GB/s are %.2f s of one disk; measured is %.2f of 1.2 x that + .5 s",
			k.op, float64(k.bytes)/1e6, turns.Median(k.limits), float64(k.written)/1e6, turns.Median(k.writes), turns.Median(k.both), turns.Median(k.share)))
	}
}

// storeRestarts brings stores on disks back, round by round: empty ones from the
// checkpoint, then the same from their own logs, and then what is looked up first.
func storeRestarts(ctx context.Context, c *Config, dir, want string, out *report.Report) error {
	loaded, own := &timed{op: "restart, store from checkpoint"}, &timed{op: "restart, store from its log"}
	var refills []float64
	for range c.Rounds {
		rate, e, err := c.forecast(ctx, dir)
		if err != nil {
			return err
		}
		written, err := c.storeFromModel(ctx, dir, want, rate, e, loaded)
		if err != nil {
			return err
		}
		writes, err := c.writeRate(ctx)
		if err != nil {
			return err
		}
		loaded.wrote(written, writes)
		took, err := c.storeFromLog(ctx, want, rate, own)
		if err != nil {
			return err
		}
		refills = append(refills, took)
	}
	loaded.add(out, want[:8])
	own.add(out, want[:8])
	read, refill := turns.Median(own.times), turns.Median(refills)
	rows := float64(c.hot() * c.Lanes)
	out.Notes = append(out.Notes, fmt.Sprintf("T_recover of a store with its disks: detect + %.2f s read + %.2f s refill (%.0f rows looked up, %.0f thousand a second); detect is what tells of the death: at once for a process of this machine, a lease for a machine",
		read, refill, rows, rows/refill/1e3))
	return nil
}

func (c *Config) storeFromModel(ctx context.Context, dir, want string, rate float64, e ckpt.Estimate, k *timed) (written int64, err error) {
	start, cpu := time.Now(), processCPU()
	m, err := ckpt.OpenTrainable(ctx, dir)
	if err != nil {
		return 0, err
	}
	s, err := openStores(c, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.load(ctx, m); err != nil {
		return 0, err
	}
	k.note(e.Bytes, rate, time.Since(start).Seconds(), e.Time.Seconds(), processCPU()-cpu)
	for _, x := range s.of {
		written += x.disks.Stats().Written
	}
	if err := s.same(want); err != nil {
		return 0, err
	}
	return written, s.each(func(_ int, x *stored) error { return x.commit(ctx) })
}

func (c *Config) storeFromLog(ctx context.Context, want string, rate float64, k *timed) (refill float64, err error) {
	start, cpu, before := time.Now(), processCPU(), bytesRead()
	s, err := openStores(c, true)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	bytes := max(1, bytesRead()-before)
	k.note(bytes, rate, time.Since(start).Seconds(), float64(bytes)/rate, processCPU()-cpu)
	start = time.Now()
	if err := s.refill(ctx); err != nil {
		return 0, err
	}
	refill = time.Since(start).Seconds()
	return refill, s.same(want)
}

func (s *stores) same(want string) error {
	got, err := s.digest()
	if err == nil && got != want {
		err = fmt.Errorf("recover: the stores that are back have digest %s, those written had %s", got, want)
	}
	return err
}
