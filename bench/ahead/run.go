package ahead

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/sched/train"
	"psrt/tiers/policy"
)

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, cfg Config) (*report.Report, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	out := &report.Report{Version: report.Version, Suite: "ahead", Transport: "shm", Time: time.Now(), Seed: cfg.Seed, Machine: report.ThisMachine()}
	if cfg.Parts.Trace {
		t, err := recorded(ctx, &cfg)
		if err != nil {
			return nil, err
		}
		rows, notes, err := replay(&cfg, t)
		if err != nil {
			return nil, err
		}
		out.Rows, out.Notes = append(out.Rows, rows...), append(out.Notes, notes...)
	}
	if cfg.Parts.Train {
		rows, notes, err := compare(ctx, &cfg)
		if err != nil {
			return nil, err
		}
		out.Rows, out.Notes = append(out.Rows, rows...), append(out.Notes, notes...)
	}
	out.Notes = append(out.Notes, turns.Note)
	return out, nil
}

// What a server's memory is taken by beside rows, about: for each row in memory,
// each row, each announced use, and once for buffers and the index's reserve.
const (
	frameBytes = 72
	indexBytes = 24
	useBytes   = 29
	fixedBytes = 8 << 20
)

// memory is a budget in which Percent of the rows fit.
func (c *Config) memory(rows int64, rowBytes int) int64 {
	fit := int64(float64(rows) * c.Percent / 100)
	uses := int64((train.LookAhead+4)*c.Batch*c.Fields) * useBytes
	return fit*int64(rowBytes+frameBytes) + rows*indexBytes + uses + fixedBytes
}

// round is one training on disk, between two measurements of the disk.
type round struct{ speed, iops, bound float64 }

// compare trains in memory and on disk.
func compare(ctx context.Context, c *Config) (rows []report.Row, notes []string, err error) {
	src, err := generate(ctx, c, "train", c.Examples, c.Vocab)
	if err != nil {
		return nil, nil, err
	}
	j := newJob(c, src)
	memory, err := run(ctx, j)
	if err != nil {
		return nil, nil, fmt.Errorf("all in memory: %w", err)
	}
	d, err := newDisk(c.Dir, c.Seed)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	rowBytes := memory.ServerUse[0].Tables[0].RowBytes
	budget := c.memory(memory.Features, rowBytes)
	notes = append(notes, fmt.Sprintf("all in memory: %.0f examples/s, %d rows of %d bytes, digest %.12s", memory.ExamplesPerS, memory.Features, rowBytes, memory.Digest),
		fmt.Sprintf("on disk: --mem-budget %d", budget))
	var all []round
	var last *train.Result
	before, err := d.perSecond()
	if err != nil {
		return nil, nil, err
	}
	for n := range c.Rounds {
		k, err := onDisk(c, j, budget, policy.NameBelady)
		if err != nil {
			return nil, nil, err
		}
		if last, err = run(ctx, k); err != nil {
			return nil, nil, fmt.Errorf("%d bytes of memory: %w", budget, err)
		}
		if last.Digest != memory.Digest {
			return nil, nil, fmt.Errorf("ahead: the model on disk has digest %s, in memory %s", last.Digest, memory.Digest)
		}
		after, err := d.perSecond()
		if err != nil {
			return nil, nil, err
		}
		s := last.Storage
		r := round{speed: last.ExamplesPerS, iops: (before + after) / 2}
		r.bound = min(memory.ExamplesPerS, r.iops/(s.ReadsEach+s.WritesEach))
		all, before = append(all, r), after
		notes = append(notes, fmt.Sprintf("round %d: %.0f examples/s; the disk alone %.0f reads/s; bound %.0f examples/s; ratio %.2f; %s",
			n+1, r.speed, r.iops, r.bound, r.speed/r.bound, s))
	}
	var speeds, bounds, ratios []float64
	for _, r := range all {
		speeds, bounds, ratios = append(speeds, r.speed), append(bounds, r.bound), append(ratios, r.speed/r.bound)
	}
	speed, size := turns.Median(speeds), float64(rowBytes*c.Fields)
	gb := func(examples float64) float64 { return examples * size / 1e9 }
	row := report.Row{Op: fmt.Sprintf("train, %g %% in memory", c.Percent), Bytes: int(size), Iterations: int(last.Examples) * c.Rounds,
		Bandwidth: &report.Bandwidth{Avg: gb(speed), Peak: gb(speed), Rate: speed / 1e6},
		Limit:     gb(turns.Median(bounds)), Ratio: turns.Median(ratios), Load: report.Load(), Checksum: last.Digest[:8]}
	notes = append(notes, "train: a message is an example, bytes those of its rows; limit: the lower of the speed all in memory and the disk's reads a second by the rows read and written for each example")
	return append(rows, row), notes, nil
}
