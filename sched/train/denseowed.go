package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"psrt/sched/clock"
	"psrt/sched/heter"
	"psrt/sched/psmsg"
)

// Outside bsp a dense rank pushes what it has of a worker's step when it has it, so that its
// pushes have an order that nobody else knows. But those of one worker are in the order of its
// steps, and servers count them apart (client.PushDensePart): what a lane has of the order is
// how many pushes of each worker, and how many ticks. All lanes were sent the same, and each has
// a beginning of it. So who takes the rank's place knows what lies between where two lanes
// stand, and may choose an order of that: no lane stands within it. It makes those pushes again
// in such an order, with their numbers, for which workers send what they have kept; a lane that
// has one does not count it. What no lane has it pushes as it comes.
//
// What it owes, and what it only answers again, it computes with whatever values are here: servers
// had all that the clocks want when this was computed before, and have no less now.

// owedPush is a push that some lane has and another lacks, or a tick.
type owedPush struct {
	tick bool
	of   int // worker
	step uint64
}

// owed is what a process owes for the one before it.
type owed struct {
	pushes []owedPush
	from   uint64         // the oldest tick that some lane lacks
	done   map[int]uint64 // by worker: steps whose pushes all lanes have
	some   map[int]uint64 // and those whose pushes one lane has at least
}

// before says whether some lane had a leaf's push when this process began.
func (o *owed) before(a *heter.Arrival) bool { return a.Head.Step < o.some[a.Link.Number] }

// stands is what a lane has of a dense rank.
type stands struct {
	psmsg.Standing
	lane  int
	dense bool // it has dense values, else it is sent ticks alone
}

// part is how many pushes of a worker's it has.
func (s *stands) part(worker int) uint64 {
	if worker < len(s.Parts) {
		return s.Parts[worker]
	}
	return 0
}

func (s *stands) check(name string) error {
	sum := s.At
	for _, n := range s.Parts {
		sum += n
	}
	if s.Last != sum {
		return fmt.Errorf("train: lane %d has %d pushes of %s, and knows of %d whose they are: what is missing cannot be made again; run the same psrt everywhere, and go on from a checkpoint (--checkpoint, --resume)", s.lane, s.Last, name, sum)
	}
	return nil
}

// owes finds out what is owed, and how many pushes each lane has been sent before that; over:
// all lanes have seen the rank leave.
func owes(name string, workers int, all []stands) (o owed, sent []uint64, over bool, err error) {
	o = owed{from: clock.None, done: map[int]uint64{}, some: map[int]uint64{}}
	var dense []stands
	left := false
	for _, s := range all {
		o.from = min(o.from, s.At)
		if left = left || s.At == clock.None; left {
			continue
		}
		if err := s.check(name); err != nil {
			return o, nil, false, err
		}
		if s.dense {
			dense = append(dense, s)
		}
	}
	sent = make([]uint64, len(all))
	for i := range sent {
		sent[i] = o.from
	}
	if left { // which begins when all lanes have all
		for w := range workers {
			o.done[w], o.some[w] = clock.None, clock.None
		}
		for i := range all {
			sent[i] = all[i].Last
		}
		return o, sent, o.from == clock.None, nil
	}
	slices.SortFunc(dense, func(a, b stands) int { return cmp.Compare(a.Last, b.Last) })
	ticks := o.from
	for i := range dense {
		s := &dense[i]
		if i == 0 {
			for w := range workers {
				o.done[w] = s.part(w)
			}
			maps.Copy(o.some, o.done)
		} else if err := o.between(name, workers, &dense[i-1], s); err != nil {
			return o, nil, false, err
		}
		for ; ticks < s.At; ticks++ {
			o.pushes = append(o.pushes, owedPush{tick: true, step: ticks})
		}
	}
	for _, s := range dense { // ticks that all of them have are sent with the numbers of the last that these have
		for w := range workers {
			sent[s.lane] += o.done[w]
		}
	}
	return o, sent, false, nil
}

// between adds the pushes that a lane has and the one before it lacks.
func (o *owed) between(name string, workers int, less, more *stands) error {
	at := len(o.pushes)
	for w := range workers {
		from, to := less.part(w), more.part(w)
		if from > to || less.At > more.At {
			return fmt.Errorf("train: lanes %d and %d have pushes of %s that the other lacks: please report this", less.lane, more.lane, name)
		}
		for step := from; step < to; step++ {
			o.pushes = append(o.pushes, owedPush{of: w, step: step})
		}
		o.some[w] = to
	}
	slices.SortStableFunc(o.pushes[at:], func(a, b owedPush) int { return cmp.Compare(a.step, b.step) })
	return nil
}

// takeOverUnordered is takeOver outside BSP.
func (d *denseRank) takeOverUnordered(ctx context.Context) (over bool, err error) {
	var all []stands
	for i, s := range d.client.Standing() {
		all = append(all, stands{Standing: s, lane: i, dense: slices.Contains(d.all[0].dense.Lanes(), i)})
	}
	var sent []uint64
	d.owed, sent, over, err = owes(d.job.MemberName(d.rank.Index), d.job.Workers, all)
	if over || err != nil {
		return over, err
	}
	if err := d.client.GoOn(ctx, d.owed.from, func(lane int) uint64 { return sent[lane] }); err != nil {
		return false, err
	}
	return false, d.goesOn(ctx, d.owed.from, true)
}

// doneBefore is how many of a worker's steps were pushed before this process.
func (d *denseRank) doneBefore(worker int) uint64 {
	if d.owed.done == nil {
		return d.clock
	}
	return d.owed.done[worker]
}

// pullFirst asks for the first values: outside BSP those of any clock, with which what is owed
// is computed, whoever else waits for that.
func (d *denseRank) pullFirst() error {
	if d.job.bsp() {
		return d.pull(d.clock)
	}
	return d.pull(0)
}

// computable says whether a leaf may be computed with the values that are here.
func (d *denseRank) computable(a *heter.Arrival) bool {
	switch {
	case d.job.bsp():
		return a.Head.Step <= d.values.clock
	case d.owed.before(a):
		return true
	}
	return len(d.owed.pushes) == 0 && a.Head.Step <= d.values.clock // else the worker gets ahead of what it has kept
}

// oldestWaiting is the oldest step that waits for values, or clock where that is older. Workers
// are steps apart when a process begins: had it asked for the values of the newest, clocks might
// hold them back until the oldest is computed.
func (d *denseRank) oldestWaiting(clock uint64) uint64 {
	for i := range d.waiting {
		if a := &d.waiting[i]; !d.owed.before(a) && a.Head.Step > d.values.clock {
			clock = min(clock, a.Head.Step)
		}
	}
	return clock
}

// pushOwed goes on with what is owed, in its order, as far as it is computed.
func (d *denseRank) pushOwed() error {
	if len(d.owed.pushes) == 0 {
		return nil
	}
	for len(d.owed.pushes) > 0 {
		p := d.owed.pushes[0]
		if p.tick {
			if err := errors.Join(d.own(), d.tick()); err != nil {
				return err
			}
		} else {
			key := groupKey{p.step, d.linkTo(p.of)}
			g := d.groups[key]
			if g == nil || g.left > 0 {
				return nil
			}
			if err := d.push(key, g, false); err != nil {
				return err
			}
		}
		d.owed.pushes = d.owed.pushes[1:]
	}
	for d.passed() > d.clock {
		if err := d.tick(); err != nil {
			return err
		}
	}
	return nil
}

// linkTo is the link to a worker.
func (d *denseRank) linkTo(worker int) *heter.Link {
	for _, l := range d.hub.Links() {
		if l.Number == worker {
			return l
		}
	}
	return nil
}
