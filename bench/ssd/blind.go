package ssd

import (
	"context"
	"fmt"
	"time"

	"psrt/bench/turns"
)

// measureBlind has each side write alone for Config.Settle, and then finish what
// it has put off: all of that time counts. In short turns a store that merges
// later would do so in the others' time.
func (r *run) measureBlind(ctx context.Context, o operation, stream uint64) error {
	t := turn{sides: make([]took, len(r.sides))}
	early := make([]float64, len(r.sides)) // seconds of a round, before it owed anything
	var limits []float64
	for i, s := range r.sides {
		x, first, err := r.alone(ctx, &o, s, stream)
		if err != nil {
			return err
		}
		t.sides[i], early[i] = x, first
		start := time.Now()
		if err := r.raw.write(ctx, int64(r.cfg.Batches*r.cfg.Keys*r.cfg.RowBytes)); err != nil {
			return err
		}
		limits = append(limits, time.Since(start).Seconds())
	}
	t.limit = turns.Median(limits)
	// The sides have come to different places of the same keys. What all write in
	// the end is read back and compared.
	last := newRound(ctx, r.cfg, newKeys(r.cfg, stream, o.skewed), 1<<20)
	for _, s := range r.sides {
		if _, _, err := play(s, &o, last); err != nil {
			return err
		}
	}
	sum, err := r.same(last)
	if err != nil {
		return fmt.Errorf("after the same writes: %w", err)
	}
	r.tell(&o, []turn{t}, sum)
	for i, s := range r.sides {
		r.note("%s, %s: %.1f thousand rows/s in the first %d rounds", o.name, s.name(), float64(r.cfg.Batches*r.cfg.Keys)/early[i]/1e3, r.cfg.Rounds)
	}
	return nil
}

// alone gives one side's average round, with its share of what was put off, and
// an early one.
func (r *run) alone(ctx context.Context, o *operation, s side, stream uint64) (mean took, early float64, err error) {
	k := newKeys(r.cfg, stream, o.skewed)
	before := s.counters()
	rounds := 0
	var firsts []float64
	for ; rounds < r.cfg.Rounds || mean.wall < r.cfg.Settle.Seconds(); rounds++ {
		x, _, err := play(s, o, newRound(ctx, r.cfg, k, rounds))
		if err != nil {
			return mean, 0, err
		}
		mean.wall, mean.cpu = mean.wall+x.wall, mean.cpu+x.cpu
		if len(firsts) < r.cfg.Rounds {
			firsts = append(firsts, x.wall)
		}
	}
	start, cpu := time.Now(), processCPU()
	if err := s.settle(ctx); err != nil {
		return mean, 0, fmt.Errorf("%s: %w", s.name(), err)
	}
	n := float64(rounds)
	mean.wall, mean.cpu = (mean.wall+time.Since(start).Seconds())/n, (mean.cpu+processCPU()-cpu)/n
	mean.did = s.counters().since(before)
	mean.did.written /= int64(rounds)
	mean.did.reads, mean.did.readRows = 0, 0 // compaction's
	return mean, turns.Median(firsts), nil
}
