package qualify

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// duels plays all waves.
func (d *Director) duels(ctx context.Context, f *Finding) error {
	defer f.judge()
	rounds := Rounds(d.job.World)
	waves := Serially(rounds)
	if !d.plan.Serial {
		waves = Waves(rounds, f.hostOf, f.limits(d.plan.LinksPerHost))
	}
	f.Waves = len(waves)
	for i, wave := range waves {
		d.progress(fmt.Sprintf("wave %d of %d", i+1, len(waves)))
		var pairs sync.WaitGroup
		for _, p := range wave {
			pairs.Go(func() { d.both(ctx, f, p) })
		}
		pairs.Wait()
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// both plays both directions of a pair.
func (d *Director) both(ctx context.Context, f *Finding, p Pair) {
	for _, way := range [][2]int{{p.A, p.B}, {p.B, p.A}} {
		from, to := d.members[way[0]], d.members[way[1]]
		if from == nil || to == nil {
			continue // Finding.Absent speaks of them
		}
		out, err := d.try(ctx, from, to)
		f.take(way[0], way[1], out, err)
	}
}

// try lets one rank dial another and measure.
func (d *Director) try(ctx context.Context, from, to *member) (*Outcome, error) {
	for _, m := range []*member{from, to} {
		if m.lost() != "" {
			return nil, context.Cause(m.ctx)
		}
	}
	limit := d.plan.duelLimit() + d.plan.Timeout
	v := visit{Serial: d.next(), From: from.rank, To: to.rank, Addr: to.Listen, Seed: d.plan.Seed}
	v.Seed += v.Serial << 20
	if err := to.call(ctx, callExpect, d.plan.Timeout, v, nil); err != nil {
		return nil, err
	}
	// Where the one that is dialed gets lost, the other need not be waited for.
	duel, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(to.ctx, func() { cancel(context.Cause(to.ctx)) })
	defer stop()
	var out Outcome
	err := from.call(duel, callDuel, limit, v, &out)
	for _, m := range []*member{to, from} {
		var s settled
		if m.lost() != "" || ctx.Err() != nil {
			continue
		}
		if e := m.call(ctx, callSettle, limit, v, &s); e == nil && err != nil && m == to && s.Err != "" && !toldByPeer(err) {
			err = fmt.Errorf("%w; %s says: %s", err, to.name(), s.Err)
		}
	}
	if err == nil {
		return &out, nil
	}
	for _, m := range []*member{to, from} {
		if m.lost() != "" {
			return nil, context.Cause(m.ctx)
		}
	}
	return nil, err
}

const (
	// passes is how often slow pairs are measured again.
	passes = 3
	// retried pairs at most are tried again that failed: each may take as long
	// as the timeout.
	retried = 8
)

// toldByPeer: the error has the other end's words already.
func toldByPeer(err error) bool {
	return strings.Contains(err.Error(), "refused by the peer") || strings.Contains(err.Error(), "the peer says")
}

// confirm measures the slowest pairs again, alone, as long as they are slow: a
// machine that was busy for a moment is no slow pair. The best counts.
func (d *Director) confirm(ctx context.Context, f *Finding) error {
	for range passes {
		suspects := f.suspects(confirmed)
		for i, p := range suspects {
			d.progress(fmt.Sprintf("slow pair %d of %d again, alone", i+1, len(suspects)))
			d.both(ctx, f, p)
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		if len(suspects) == 0 {
			return nil
		}
		f.Again = max(f.Again, len(suspects))
		f.judge()
	}
	return nil
}

// retry tries the pairs that failed once more, alone: whether a way is closed
// or fails now and then makes a difference to who looks for the reason.
func (d *Director) retry(ctx context.Context, f *Finding) error {
	failed := f.failures(retried)
	for i, p := range failed {
		d.progress(fmt.Sprintf("pair %d of %d that failed again, alone", i+1, len(failed)))
		d.both(ctx, f, p)
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	f.judge()
	return nil
}

// crowd measures all pairs at once, of those ranks that reach each other.
func (d *Director) crowd(ctx context.Context, f *Finding) {
	t := &Total{Worst: -1}
	f.Total = t
	var there []*member
	for _, m := range d.members {
		if m != nil && m.lost() == "" {
			there = append(there, m)
		}
	}
	serial := d.next()
	plans := map[int]crowdPlan{}
	for _, m := range there {
		p := crowdPlan{
			Serial: serial, Duration: totalFactor * d.plan.Duration, Seed: d.plan.Seed,
			Slot: crowdSlot(d.plan.regionBytes(), len(there), d.plan.Sizes[0]),
		}
		for _, o := range there {
			if o != m && f.reached(m.rank, o.rank) && f.reached(o.rank, m.rank) {
				p.Peers = append(p.Peers, crowdPeer{Rank: o.rank, Addr: o.Listen, Dial: m.rank < o.rank})
			}
		}
		if t.Slot = p.Slot; len(p.Peers) > 0 {
			plans[m.rank] = p
		}
	}
	all := func(method string, each func(m *member) error) {
		var wg sync.WaitGroup
		for _, m := range there {
			if _, ok := plans[m.rank]; ok && m.lost() == "" {
				wg.Go(func() {
					if err := each(m); err != nil {
						t.fail(fmt.Sprintf("%s: %s: %v", m.name(), method, err))
					}
				})
			}
		}
		wg.Wait()
	}
	limit := d.plan.Timeout
	all("gather", func(m *member) error { return m.call(ctx, callGather, limit, plans[m.rank], nil) })
	all("connect", func(m *member) error {
		var met crowdMet
		// Some peers at a time, each in four steps at most.
		err := m.call(ctx, callMeet, limit*5+limit*4*MaxRanks/8, plans[m.rank], &met)
		for r, text := range met.Failed {
			t.fail(fmt.Sprintf("%s to rank %d: %s", m.name(), r, text))
		}
		return err
	})
	all("write", func(m *member) error {
		var wrote crowdWrote
		err := m.call(ctx, callWrite, totalFactor*d.plan.Duration+3*limit, plans[m.rank], &wrote)
		if err == nil {
			t.add(m.rank, wrote)
			for r, text := range wrote.Failed {
				t.fail(fmt.Sprintf("%s to rank %d: %s", m.name(), r, text))
			}
		}
		return err
	})
	all("check", func(m *member) error {
		var checked crowdChecked
		err := m.call(ctx, callCheck, limit, plans[m.rank], &checked)
		if len(checked.Bad) > 0 {
			t.fail(fmt.Sprintf("%s has bytes of rank %s that nobody sent: they were lost or changed on the way", m.name(), numbers(checked.Bad)))
		}
		return err
	})
}
