package ssd

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/rdma/mem"
)

// operation is one kind of round.
type operation struct {
	name   string
	skewed bool
	writes bool
	run    func(s side, r *round) error
}

func operations() []operation {
	return []operation{
		{"read", false, false, side.read},
		{"read, Zipf .99", true, false, side.read},
		{"read, add, write", false, true, side.rmw},
		{"write", false, true, side.write},
	}
}

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, cfg Config) (_ *report.Report, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	r := &run{cfg: &cfg}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	out := &report.Report{Version: report.Version, Suite: "ssd", Transport: "none", Time: time.Now(), Seed: cfg.Seed,
		Machine: report.ThisMachine(), Notes: notes(&cfg)}
	out.Notes = append(out.Notes, r.about...)
	for i, o := range operations() {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, o.name) {
			continue
		}
		rows, notes, err := r.measure(ctx, o, uint64(i))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
		out.Rows, out.Notes = append(out.Rows, rows...), append(out.Notes, notes...)
	}
	return out, nil
}

type run struct {
	cfg   *Config
	raw   *raw
	sides []side
	about []string
	order int // of the next round: another side begins each time
}

func (r *run) close() error {
	var errs []error
	for _, s := range r.sides {
		errs = append(errs, s.close())
	}
	if r.raw != nil {
		errs = append(errs, r.raw.close())
	}
	return errors.Join(errs...)
}

// open makes the sides, and all rows on each.
func (r *run) open(ctx context.Context) (err error) {
	if r.raw, err = newRaw(r.cfg); err != nil {
		return err
	}
	r.about = append(r.about, "the disk: "+r.raw.dev.String())
	mine, err := openTiered(r.cfg)
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
		for at := 0; at < r.cfg.Rows; at += 1 << 16 {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if err := s.fill(at, min(1<<16, r.cfg.Rows-at)); err != nil {
				return fmt.Errorf("%s: filling: %w", s.name(), err)
			}
		}
		if err := s.settle(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name(), err)
		}
		c := s.counters()
		payload := float64(r.cfg.Rows) * float64(r.cfg.rowBytes())
		r.about = append(r.about, fmt.Sprintf("%s was filled at %.0f thousand rows/s and takes %.2f of the rows' bytes on disk",
			s.name(), float64(r.cfg.Rows)/time.Since(start).Seconds()/1e3, float64(c.diskBytes)/payload))
	}
	return nil
}

// took is what one turn cost.
type took struct {
	wall, cpu float64 // seconds
	did       counters
}

// play lets one side have its turn.
func play(s side, o *operation, rd *round) (t took, sum uint32, err error) {
	before, cpu, start := s.counters(), processCPU(), time.Now()
	if err := o.run(s, rd); err != nil {
		return t, 0, fmt.Errorf("%s: %w", s.name(), err)
	}
	t.wall, t.cpu = time.Since(start).Seconds(), processCPU()-cpu
	after := s.counters()
	t.did = counters{diskReads: after.diskReads - before.diskReads, asked: after.asked - before.asked,
		writtenBytes: after.writtenBytes - before.writtenBytes, diskBytes: after.diskBytes}
	if !o.writes {
		for _, a := range rd.answers {
			sum = crc32.Update(sum, crc32.IEEETable, mem.Bytes(a))
		}
	}
	return t, sum, nil
}

func processCPU() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func (r *run) measure(ctx context.Context, o operation, stream uint64) ([]report.Row, []string, error) {
	n := len(r.sides)
	turnsOf, limits := make([][]took, n), []float64(nil)
	ratios := make([][]float64, n)
	k := newKeys(r.cfg.Seed, stream, r.cfg.Rows, o.skewed)
	total := uint32(0)
	for number := range r.cfg.Rounds + 1 { // the first warms caches and does not count
		rd := newRound(ctx, r.cfg, k, number)
		now, sums := make([]took, n), make([]uint32, n)
		for i := range n {
			who := (i + r.order) % n
			t, sum, err := play(r.sides[who], &o, rd)
			if err != nil {
				return nil, nil, err
			}
			now[who], sums[who] = t, sum
		}
		r.order++
		for i := range sums {
			if sums[i] != sums[0] {
				return nil, nil, fmt.Errorf("ssd: %s and %s give different rows (%08x, %08x)", r.sides[0].name(), r.sides[i].name(), sums[0], sums[i])
			}
		}
		limit, err := r.limit(ctx, &o, &now[0])
		if err != nil {
			return nil, nil, err
		}
		if number == 0 {
			continue
		}
		total = crc32.Update(total, crc32.IEEETable, []byte(fmt.Sprint(sums[0])))
		limits = append(limits, limit)
		for i, t := range now {
			turnsOf[i] = append(turnsOf[i], t)
			ratios[i] = append(ratios[i], limit/t.wall)
		}
	}
	if o.writes { // what was written is read back, by all sides
		rd := newRound(ctx, r.cfg, newKeys(r.cfg.Seed, stream, r.cfg.Rows, o.skewed), 0)
		read := operation{name: "read back", run: side.read}
		for i, s := range r.sides {
			_, sum, err := play(s, &read, rd)
			if err != nil {
				return nil, nil, err
			}
			if i == 0 {
				total = sum
			} else if sum != total {
				return nil, nil, fmt.Errorf("ssd: after the same writes %s and %s hold different rows (%08x, %08x)", r.sides[0].name(), s.name(), total, sum)
			}
		}
	}
	rows, notes := r.rows(&o, turnsOf, limits, ratios, total)
	return rows, notes, nil
}

// limit is how long the disk takes for what the turn needed of it.
func (r *run) limit(ctx context.Context, o *operation, t *took) (float64, error) {
	start := time.Now()
	if o.name == "write" {
		if err := r.raw.write(ctx, int64(r.cfg.Batches*r.cfg.Keys*r.cfg.rowBytes())); err != nil {
			return 0, err
		}
		return time.Since(start).Seconds(), nil
	}
	n := max(int(t.did.diskReads), 4096)
	if err := r.raw.read(ctx, n); err != nil {
		return 0, err
	}
	return time.Since(start).Seconds() * float64(max(t.did.diskReads, 1)) / float64(n), nil
}

func (r *run) rows(o *operation, all [][]took, limits []float64, ratios [][]float64, sum uint32) (rows []report.Row, notes []string) {
	asked := float64(r.cfg.Batches * r.cfg.Keys)
	bytes := asked * float64(r.cfg.rowBytes())
	var rates []float64
	for i, s := range r.sides {
		var speed, limit []float64
		cpu, reads, written := 0.0, 0.0, 0.0
		for j, t := range all[i] {
			speed, limit = append(speed, bytes/t.wall/1e9), append(limit, bytes/limits[j]/1e9)
			cpu, reads, written = cpu+t.cpu, reads+float64(t.did.diskReads), written+float64(t.did.writtenBytes)
		}
		avg, rounds := turns.Median(speed), float64(len(all[i]))
		rates = append(rates, avg)
		rows = append(rows, report.Row{
			Op: fmt.Sprintf("%s, %s", o.name, s.name()), Bytes: r.cfg.rowBytes(), Iterations: int(asked * rounds),
			Bandwidth: &report.Bandwidth{Avg: avg, Peak: slices.Max(speed), Rate: avg * 1e3 / float64(r.cfg.rowBytes())},
			Limit:     turns.Median(limit), Ratio: turns.Median(ratios[i]), CPUSecondsPerGB: cpu / rounds / (bytes / 1e9),
			Load: report.Load(), Checksum: fmt.Sprintf("%08x", sum),
		})
		note := fmt.Sprintf("%s, %s: %.1f thousand rows/s, %.2f us CPU a row", o.name, s.name(), avg*1e6/float64(r.cfg.rowBytes()), cpu/rounds/asked*1e6)
		if reads > 0 {
			note += fmt.Sprintf(", %.1f %% of the rows from disk, %.2f us CPU each", 100*reads/rounds/asked, cpu/reads*1e6)
		}
		if o.writes {
			note += fmt.Sprintf(", %.2f bytes written to disk for each of a row", written/rounds/bytes)
		}
		notes = append(notes, note)
	}
	for i := 1; i < len(rates); i++ {
		notes = append(notes, fmt.Sprintf("%s: psrt is %.1f times as fast as %s", o.name, rates[0]/rates[i], r.sides[i].name()))
	}
	return rows, notes
}

func notes(c *Config) []string {
	return []string{
		fmt.Sprintf("%d rows of %d bytes, %d MiB of memory for each side; batches of %d distinct keys, %d in flight", c.Rows, c.rowBytes(), c.Memory>>20, c.Keys, c.InFlight),
		"a message is a row: rate is million rows a second, bytes those of weights and optimizer state",
		"limit: the same disk read by itself, one block at a random place for each row that psrt had to read, in the same round; of writes the same bytes written one after the other, and synced",
		"all sides' answers are compared; after writes the rows are read back and compared",
		turns.Note,
	}
}
