package ssd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/tiers"
	"psrt/tiers/blk"
)

// operation is one kind of round.
type operation struct {
	name   string
	skewed bool
	writes bool
	blind  bool // each side for a while, see measureBlind
	run    func(s side, r *round) error
}

func operations() []operation {
	return []operation{
		{"read", false, false, false, side.read},
		{"read, Zipf .99", true, false, false, side.read},
		{"read, add, write", false, true, false, side.rmw},
		{"write", false, true, true, side.write},
		{"read after writes", false, false, false, side.read},
	}
}

// devicesName is the last operation, which has sides of its own.
const devicesName = "devices"

func names() (out []string) {
	for _, o := range operations() {
		out = append(out, o.name)
	}
	return append(out, devicesName)
}

func known(name string) bool { return slices.Contains(names(), name) }

func (c *Config) wants(name string) bool { return len(c.Only) == 0 || slices.Contains(c.Only, name) }

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, cfg Config) (_ *report.Report, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	out := &report.Report{Version: report.Version, Suite: "ssd", Transport: "none", Time: time.Now(), Seed: cfg.Seed,
		Machine: report.ThisMachine(), Notes: notes(&cfg)}
	r := &run{cfg: &cfg, out: out}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.beside(ctx); err != nil {
		return nil, err
	}
	if err := r.close(); err != nil {
		return nil, err
	}
	if cfg.RocksDB > 0 {
		if err := r.rocks(ctx); err != nil {
			return nil, fmt.Errorf("rocksdb: %w", err)
		}
	}
	if cfg.Devices > 1 && cfg.wants(devicesName) {
		if err := r.devices(ctx); err != nil {
			return nil, fmt.Errorf("devices: %w", err)
		}
	}
	return out, nil
}

type run struct {
	cfg   *Config
	out   *report.Report
	raw   *raw
	sides []side
	order int                // of the next round: another side begins each time
	rates map[string]float64 // of ours, rows a second by operation
}

func (r *run) close() error {
	var errs []error
	for _, s := range r.sides {
		errs = append(errs, s.close())
	}
	if r.raw != nil {
		errs = append(errs, r.raw.close())
	}
	r.sides, r.raw = nil, nil
	return errors.Join(errs...)
}

func (r *run) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.out.Notes = append(r.out.Notes, text)
	if r.cfg.Progress != nil {
		r.cfg.Progress(text)
	}
}

// beside lets all sides and the limit take turns at each operation.
func (r *run) beside(ctx context.Context) error {
	if !slices.ContainsFunc(operations(), func(o operation) bool { return r.cfg.wants(o.name) }) {
		return nil
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	for i, o := range operations() {
		if !r.cfg.wants(o.name) {
			continue
		}
		if err := r.measure(ctx, o, uint64(i)); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

// open makes the limit's file and fills the sides.
func (r *run) open(ctx context.Context) (err error) {
	r.rates = map[string]float64{}
	if r.raw, err = newRaw(r.cfg); err != nil {
		return fmt.Errorf("the limit: %w", err)
	}
	r.note("the disk: %v", r.raw.dev)
	mine, err := openOurs(r.cfg, r.cfg.Dirs, func(dir string) (blk.Device, error) {
		return blk.Open(dir, blk.Config{Depth: tiers.Depth(r.cfg.Lanes)})
	})
	if err != nil {
		return err
	}
	r.sides = append(r.sides, mine)
	if r.cfg.Pebble {
		p, err := newRival(r.cfg)
		if err != nil {
			return err
		}
		r.sides = append(r.sides, p)
	}
	for _, s := range r.sides {
		start := time.Now()
		if err := s.fill(ctx); err != nil {
			return fmt.Errorf("%s: filling: %w", s.name(), err)
		}
		took := time.Since(start)
		r.note("%s was filled at %.0f thousand rows/s and then took %.2f of the rows' bytes on disk",
			s.name(), float64(r.cfg.Rows)/took.Seconds()/1e3, float64(s.counters().diskBytes)/float64(r.cfg.payload()))
	}
	if r.cfg.Age == 0 {
		return nil
	}
	before, start := mine.counters(), time.Now()
	if err := mine.age(ctx); err != nil {
		return fmt.Errorf("psrt: overwriting: %w", err)
	}
	n := r.cfg.Age * float64(r.cfg.Rows)
	r.note("psrt then overwrote %.0f rows with what they held, at %.0f thousand rows/s, so that it compacts from then on: %.2f bytes written for each of those, %.2f of the rows' bytes on disk",
		n, n/time.Since(start).Seconds()/1e3, float64(mine.counters().since(before).written)/(n*float64(r.cfg.RowBytes)),
		float64(mine.counters().diskBytes)/float64(r.cfg.payload()))
	return nil
}

func notes(c *Config) []string {
	return []string{
		fmt.Sprintf("%d rows of %d bytes, %d MiB of memory for each side; batches of %d distinct keys, %d in flight in each of %d lanes", c.Rows, c.RowBytes, c.Memory>>20, c.Keys, c.InFlight, c.Lanes),
		"a message is a row: rate is million rows a second, bytes those of weights and optimizer state",
		"limit of reads: single blocks at random places of a file as large as the table, in the same round, by a bare ring and by fio, the faster one, divided by the rows that did not lie in memory; of writes the same bytes written one after the other, and synced",
		"all sides' answers are compared; after writes the rows are read back and compared",
		turns.Note,
	}
}
