package hbm

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"time"

	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/rdma/mem"
)

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, cfg Config) (out *report.Report, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	runtime.LockOSThread() // for the CPU time of this loop alone
	defer runtime.UnlockOSThread()
	ids := batch(&cfg)
	b, err := lay(&cfg, ids)
	if err != nil {
		return nil, fmt.Errorf("%w; --device %s measures its twin in the host's memory", err, DeviceHost)
	}
	defer func() { err = errors.Join(err, b.close()) }()
	f, err := newFinder(&cfg, ids)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.memory.Close()) }()
	s, err := newSteps(&cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.cache.Close()) }()
	row := 4 * cfg.Dim
	whole := row * cfg.Rows
	out = &report.Report{Version: report.Version, Suite: "hbm", Transport: cfg.Device, Time: time.Now(), Seed: cfg.Seed, Machine: report.ThisMachine()}
	found := 0.0
	for _, p := range []struct {
		op              string
		bytes, messages int
		ours, limit     func() (float64, error)
	}{
		{"gather", row, cfg.Rows, b.gather, func() (float64, error) { return b.copy(whole) }},
		{"find and gather", row, cfg.Rows, func() (float64, error) {
			finding, err := f.find(ids)
			if err != nil {
				return 0, err
			}
			found = finding
			gathering, err := b.gather()
			return finding + gathering, err
		}, func() (float64, error) { return b.copy(whole) }},
		{"fill", row, cfg.Rows, b.fill, b.bring},
		{"update, adagrad", 5 * row / 2, cfg.Rows, b.update, func() (float64, error) { return b.copy(whole / 2 * 5) }},
		{fmt.Sprintf("step, %d %% ahead", cfg.Misses), row, s.n * stepsARound, func() (float64, error) { return s.round(true) }, func() (float64, error) { return s.round(false) }},
	} {
		game := turns.Game{Op: p.op, Bytes: p.bytes, Messages: p.messages, Rounds: cfg.Rounds, Ours: loop(p.ours), Limit: loop(p.limit)}
		r, err := game.Play(ctx)
		if err != nil {
			return nil, err
		}
		if r.Checksum, err = check(&cfg, b, ids); err != nil {
			return nil, err
		}
		out.Rows = append(out.Rows, r)
	}
	out.Notes = notes(&cfg, b, s, found)
	return out, nil
}

func lay(c *Config, ids []uint32) (bed, error) {
	if c.Device == DeviceGPU {
		return newCard(c, ids)
	}
	return newHostBed(c, ids)
}

func loop(work func() (float64, error)) turns.Loop {
	return func(context.Context, int) (turns.Took, error) {
		cpu := turns.ThreadCPU()
		s, err := work()
		return turns.Took{Wall: s, CPU: turns.ThreadCPU() - cpu}, err
	}
}

// check gathers the batch and holds it against what was filled in.
func check(c *Config, b bed, ids []uint32) (sum string, err error) {
	if _, err := b.gather(); err != nil {
		return "", err
	}
	got, err := b.gathered()
	if err != nil {
		return "", err
	}
	for i, id := range ids {
		for j, x := range got[i*c.Dim : (i+1)*c.Dim] {
			if want := value(id) + float32(j); x != want {
				return "", fmt.Errorf("hbm: float %d of row %d is gathered as %v, want %v", j, id, x, want)
			}
		}
	}
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(mem.Bytes(got))), nil
}

func notes(c *Config, b bed, s *steps, found float64) []string {
	return []string{
		"device: " + b.name(),
		"limit: a copy of as many bytes within the same memory, of fill one from the host's memory (pinned, on a GPU)",
		fmt.Sprintf("batches of %d rows of %d floats among %d", c.Rows, c.Dim, c.total()),
		"update: a row and its accumulators read and written, its gradient read; the limit copies as many bytes as that moves",
		fmt.Sprintf("keys are found by the host, as a server does: %.0f ns a key in the last round", found/float64(c.Rows)*1e9),
		fmt.Sprintf("step: lookup, gather to the host's memory and update of %d rows, %d of them copied in ahead of it; the limit is the same with all rows there", s.n, s.fresh),
		turns.Note,
	}
}
