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
	f, err := newFinder(&cfg, ids)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.memory.Close()) }()
	b, err := lay(&cfg, ids, f)
	if err != nil {
		return nil, fmt.Errorf("%w; --device %s measures its twin in the host's memory", err, DeviceHost)
	}
	defer func() { err = errors.Join(err, b.close()) }()
	s, err := newSteps(&cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.cache.Close()) }()
	row := 4 * cfg.Dim
	whole := row * cfg.Rows
	out = &report.Report{Version: report.Version, Suite: "hbm", Transport: cfg.Device, Time: time.Now(), Seed: cfg.Seed, Machine: report.ThisMachine()}
	for _, p := range []struct {
		op              string
		bytes, messages int
		ours, limit     func() (float64, error)
	}{
		{"gather", row, cfg.Rows, b.gather, func() (float64, error) { return b.copy(whole) }},
		{"gather, rows apart", row, cfg.Rows, b.apart, func() (float64, error) { return b.copy(whole) }},
		{"find and gather", row, cfg.Rows, b.find, func() (float64, error) { return b.copy(whole) }},
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
	out.Notes = notes(&cfg, b, s)
	if cfg.Device == DeviceGPU {
		out.Notes = append(out.Notes, bars(&cfg, out.Rows)...)
	}
	if cfg.Cards < 2 {
		return out, nil
	}
	return out, exchanged(ctx, &cfg, out)
}

// exchanged adds a step whose rows are spread over cards, beside that of one card.
func exchanged(ctx context.Context, cfg *Config, out *report.Report) (err error) {
	var worlds [2]*cards
	for i, n := range []int{cfg.Cards, 1} {
		if worlds[i], err = newCards(ctx, cfg, n); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, worlds[i].close()) }()
	}
	many, one := worlds[0], worlds[1]
	game := turns.Game{Op: fmt.Sprintf("step, %d cards", cfg.Cards), Bytes: 4 * cfg.Dim, Messages: many.rows * stepsARound, Rounds: cfg.Rounds,
		Ours: loop(many.round), Limit: loop(one.round)}
	r, err := game.Play(ctx)
	if err != nil {
		return err
	}
	if err := sameDigest(many, one); err != nil {
		return err
	}
	r.Checksum = out.Rows[0].Checksum
	out.Rows = append(out.Rows, r)
	out.Notes = append(out.Notes, fmt.Sprintf("cards: %d rows a step, spread over %d of them by their keys, exchanged by all-to-all both ways (NCCL among GPUs, shared memory among twins); the limit is the step of one card, with the same digest in the end", many.rows, cfg.Cards))
	return nil
}

func lay(c *Config, ids []uint32, f *finder) (bed, error) {
	if c.Device == DeviceGPU {
		return newCard(c, ids, f)
	}
	return newArenas(c, ids, f)
}

func loop(work func() (float64, error)) turns.Loop {
	return func(context.Context, int) (turns.Took, error) {
		cpu := turns.ThreadCPU()
		s, err := work()
		return turns.Took{Wall: s, CPU: turns.ThreadCPU() - cpu}, err
	}
}

// check gathers the batch each way and holds it against what was filled in.
func check(c *Config, b bed, ids []uint32) (sum string, err error) {
	if _, err := b.apart(); err != nil {
		return "", err
	}
	if _, err := checkGathered(c, b, ids, true); err != nil {
		return "", err
	}
	if _, err := b.gather(); err != nil {
		return "", err
	}
	if _, err := checkGathered(c, b, ids, false); err != nil {
		return "", err
	}
	if _, err := b.find(); err != nil {
		return "", err
	}
	if err := checkFound(b, ids); err != nil {
		return "", err
	}
	return checkGathered(c, b, ids, false)
}

func checkGathered(c *Config, b bed, ids []uint32, apart bool) (sum string, err error) {
	got, err := b.gathered(apart)
	if err != nil {
		return "", err
	}
	step, hash := c.Dim, crc32.NewIEEE()
	if apart {
		step *= apartBy
	}
	for i, id := range ids {
		row := got[i*step : i*step+c.Dim]
		for j, x := range row {
			if want := value(id) + float32(j); x != want {
				return "", fmt.Errorf("hbm: float %d of row %d is gathered as %v, want %v", j, id, x, want)
			}
		}
		_, _ = hash.Write(mem.Bytes(row))
	}
	return fmt.Sprintf("%08x", hash.Sum32()), nil
}

// limitNote says what the limits are.
func limitNote(c *Config) string {
	if c.library() != "" {
		return "limit: a copy of as many bytes within the host's memory, as a table of functions has none within the device's; batches come from the host's memory and go there, as a server's do"
	}
	return "limit: a copy of as many bytes within the same memory, of fill one from the host's memory (pinned, on a GPU)"
}

func notes(c *Config, b bed, s *steps) []string {
	return []string{
		"device: " + b.name(),
		limitNote(c),
		fmt.Sprintf("batches of %d rows of %d floats among %d", c.Rows, c.Dim, c.total()),
		"update: a row and its accumulators read and written, its gradient read; the limit copies as many bytes as that moves",
		fmt.Sprintf("rows apart: into every other row of a matrix of %d floats a row", apartBy*c.Dim),
		"find and gather: one launch for keys and rows, by the index's image on a GPU, by the index itself on the twin in the host's memory",
		fmt.Sprintf("step: lookup, gather to the host's memory and update of %d rows, %d of them copied in ahead of it; the limit is the same with all rows there", s.n, s.fresh),
		turns.Note,
	}
}
