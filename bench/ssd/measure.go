package ssd

import (
	"context"
	"fmt"
	"hash/crc32"
	"time"

	"golang.org/x/sys/unix"

	"psrt/rdma/mem"
)

// took is what one turn cost.
type took struct {
	wall, cpu float64 // seconds
	did       counters
}

// turn is one round of all sides and of the limit.
type turn struct {
	sides     []took
	limit     float64 // seconds for what our turn needed of the disk
	ring, fio rates
}

// play lets one side have its turn.
func play(s side, o *operation, rd *round) (t took, sum uint32, err error) {
	for _, a := range rd.answers {
		clear(a)
	}
	before, cpu, start := s.counters(), processCPU(), time.Now()
	if err := o.run(s, rd); err != nil {
		return t, 0, fmt.Errorf("%s: %w", s.name(), err)
	}
	t.wall, t.cpu = time.Since(start).Seconds(), processCPU()-cpu
	t.did = s.counters().since(before)
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

// measure plays an operation's rounds.
func (r *run) measure(ctx context.Context, o operation, stream uint64) error {
	if o.blind {
		return r.measureBlind(ctx, o, stream)
	}
	k := newKeys(r.cfg, stream, o.skewed)
	var all []turn
	total := uint32(0)
	for number := 0; number <= r.cfg.Rounds; number++ {
		t, sum, err := r.turn(ctx, &o, newRound(ctx, r.cfg, k, number))
		if err != nil {
			return err
		}
		total = crc32.Update(total, crc32.IEEETable, fmt.Append(nil, sum))
		if number > 0 { // the first warms caches and does not count
			all = append(all, t)
		}
	}
	if o.writes { // what was written is read back, by all sides
		var err error
		if total, err = r.same(newRound(ctx, r.cfg, newKeys(r.cfg, stream, o.skewed), 0)); err != nil {
			return fmt.Errorf("after the same writes: %w", err)
		}
	}
	r.tell(&o, all, total)
	return nil
}

// turn lets all sides play a round, another one first each time, and then the
// limit.
func (r *run) turn(ctx context.Context, o *operation, rd *round) (t turn, sum uint32, err error) {
	n := len(r.sides)
	t.sides = make([]took, n)
	for i := range n {
		who := (i + r.order) % n
		x, s, err := play(r.sides[who], o, rd)
		if err != nil {
			return t, 0, err
		}
		if i > 0 && s != sum {
			return t, 0, fmt.Errorf("ssd: %s gives other rows than the side before it (%08x, %08x)", r.sides[who].name(), s, sum)
		}
		t.sides[who], sum = x, s
	}
	r.order++
	t.ring, t.fio, err = r.raw.read(ctx)
	t.limit = float64(t.sides[0].did.reads) / max(t.ring.perSecond, t.fio.perSecond)
	return t, sum, err
}

// same reads a round by all sides.
func (r *run) same(rd *round) (sum uint32, err error) {
	read := operation{name: "read back", run: side.read}
	for i, s := range r.sides {
		_, x, err := play(s, &read, rd)
		if err != nil {
			return 0, err
		}
		if i > 0 && x != sum {
			return 0, fmt.Errorf("ssd: %s and %s hold different rows (%08x, %08x)", r.sides[0].name(), s.name(), sum, x)
		}
		sum = x
	}
	return sum, nil
}
