package tables

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/tiers/table"
)

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, cfg Config) (*report.Report, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	out := &report.Report{Version: report.Version, Suite: "table", Transport: "none", Time: time.Now(), Seed: cfg.Seed,
		Machine: report.ThisMachine(), Notes: notes(&cfg)}
	for _, dim := range cfg.Dims {
		if err := measure(ctx, &cfg, dim, out); err != nil {
			return nil, fmt.Errorf("rows of %d floats: %w", dim, err)
		}
	}
	return out, nil
}

// run is the lanes of one row length.
type run struct {
	cfg   *Config
	lanes []*lane
	sums  [2]uint32 // of the answers of a round, on each side
	round [2]int    // that round, or -1
	check uint32    // of the sums of all rounds of an operation
}

func measure(ctx context.Context, cfg *Config, dim int, out *report.Report) (err error) {
	r := &run{cfg: cfg}
	defer func() {
		for _, l := range r.lanes {
			err = errors.Join(err, l.close())
		}
	}()
	for i := range cfg.Threads {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		l, err := newLane(cfg, i, dim)
		if err != nil {
			return err
		}
		r.lanes = append(r.lanes, l)
	}
	rows, err := r.rows(ctx, dim)
	if err != nil {
		return err
	}
	beside, err := r.beside(ctx, dim)
	if err != nil {
		return err
	}
	out.Rows = append(out.Rows, rows...)
	out.Notes = append(out.Notes, r.memory(dim), speeds(cfg, dim, rows), beside)
	return nil
}

// rows plays all operations.
func (r *run) rows(ctx context.Context, dim int) ([]report.Row, error) {
	var rows []report.Row
	for i, o := range operations() {
		game := turns.Game{Op: fmt.Sprintf("%s, rows of %d", o.name, dim), Bytes: o.bytes(dim), Rounds: r.cfg.rounds(&o), Cold: o.build,
			Ours: r.loop(&o, mine, i), Limit: r.loop(&o, limit, i)}
		for _, l := range r.lanes {
			game.Messages += l.messages(&o)
		}
		r.check, r.round = 0, [2]int{-1, -1}
		row, err := game.Play(ctx)
		if err != nil {
			return nil, err
		}
		if o.answer == nil {
			if r.check, err = r.ended(dim); err != nil {
				return nil, err
			}
		}
		row.Checksum = fmt.Sprintf("%08x", r.check)
		rows = append(rows, row)
	}
	return rows, nil
}

// loop is one side of an operation, all lanes at a time.
func (r *run) loop(o *op, who, number int) turns.Loop {
	return func(ctx context.Context, round int) (turns.Took, error) {
		var wg sync.WaitGroup
		took, sums, errs := make([]turns.Took, len(r.lanes)), make([]uint32, len(r.lanes)), make([]error, len(r.lanes))
		start := make(chan struct{})
		for i, l := range r.lanes {
			wg.Go(func() {
				<-start
				// No round begins where another did: what it asks for is in no cache.
				from := (number*(r.cfg.Rounds+1) + round) * r.cfg.Batches * r.cfg.Keys % l.n
				took[i], sums[i], errs[i] = l.play(ctx, o, who, from)
			})
		}
		close(start)
		wg.Wait()
		var all turns.Took
		rate, messages, sum := 0.0, 0, uint32(0)
		for i, l := range r.lanes {
			messages += l.messages(o)
			rate += float64(l.messages(o)) / took[i].Wall
			all.CPU += took[i].CPU
			sum = mixed(sum, sums[i])
		}
		all.Wall = float64(messages) / rate
		if err := errors.Join(errs...); err != nil {
			return all, err
		}
		r.sums[who], r.round[who] = sum, round
		if r.round[mine] == r.round[limit] {
			if r.sums[mine] != r.sums[limit] {
				return all, fmt.Errorf("tables: %s: the table's answers sum up to %08x, the bare table's to %08x", o.name, r.sums[mine], r.sums[limit])
			}
			r.check = mixed(r.check, sum)
		}
		return all, nil
	}
}

// ended compares all rows after the updates, and gives their checksum.
func (r *run) ended(dim int) (uint32, error) {
	var sums [2]uint32
	for _, l := range r.lanes {
		for who := range sums {
			sum, err := l.ended(who)
			if err != nil {
				return 0, err
			}
			sums[who] = mixed(sums[who], sum)
		}
	}
	// Of the rules only this one is what the limit does as well.
	if r.cfg.spec(dim).Optimizer.WithDefaults().Kind == table.SGD && sums[mine] != sums[limit] {
		return 0, fmt.Errorf("tables: after the same updates the table's rows sum up to %08x, the bare table's to %08x", sums[mine], sums[limit])
	}
	return sums[mine], nil
}

// mixed sums up in order.
func mixed(sum, next uint32) uint32 {
	return crc32.Update(sum, castagnoli, []byte{byte(next), byte(next >> 8), byte(next >> 16), byte(next >> 24)})
}
