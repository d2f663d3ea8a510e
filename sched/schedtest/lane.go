package schedtest

import (
	"fmt"
	"slices"
	"strings"

	"psrt/sched/clock"
	"psrt/sched/tree"
)

// lane is one server lane with one number in it.
type lane struct {
	clock   *clock.Clock
	once    *clock.Once
	top     []tree.Merge
	value   float32
	version int
	held    []update
	waiting []read
	history []clock.Event
}

type update struct {
	worker    int
	step, seq uint64
	value     float32
}

type read struct {
	worker int
	step   uint64
}

func newLane(workers, staleness, leaves int) (*lane, error) {
	shares, err := tree.Shares(leaves, workers)
	if err != nil {
		return nil, err
	}
	top, err := tree.Top(shares)
	if err != nil {
		return nil, err
	}
	return &lane{clock: clock.New(workers, staleness), once: clock.NewOnce(workers), top: top}, nil
}

func (l *lane) pull(r *runner, w int, step uint64) {
	l.waiting = append(l.waiting, read{w, step})
	l.apply(r, l.clock.Staleness() > 0)
	l.answer(r)
	if slices.Contains(l.waiting, read{w, step}) {
		r.printf("worker %d waits for %s\n", w, workers(l.clock.Blocks(step)))
	}
}

// answer answers the pulls that the clocks let through.
func (l *lane) answer(r *runner) {
	l.waiting = slices.DeleteFunc(l.waiting, func(p read) bool {
		if !l.clock.MayPull(p.worker, p.step) {
			return false
		}
		r.printf("worker %d reads %v, version %d, for step %d\n", p.worker, l.value, l.version, p.step)
		l.history = append(l.history, clock.Event{Kind: clock.Answered, Worker: p.worker, Step: p.step})
		return true
	})
}

func (l *lane) push(r *runner, u update) {
	switch l.once.Check(u.worker, u.seq) {
	case clock.Duplicate:
		r.printf("a duplicate: acknowledged, not applied\n")
		return
	case clock.Gap:
		r.printf("refused: sequence %d is missing\n", l.once.Last(u.worker)+1)
		return
	}
	if err := l.clock.Tick(u.worker, u.step); err != nil {
		r.printf("refused: %v\n", err)
		return
	}
	l.once.Take(u.worker, u.seq)
	l.held = append(l.held, u)
	if l.clock.Staleness() == 0 {
		if missing := l.clock.Missing(u.step); missing != nil {
			r.printf("held: step %d misses %s\n", u.step, workers(missing))
		}
	}
	l.apply(r, false)
	l.answer(r)
}

// apply applies whole steps one after the other in BSP, and all that is queued
// at a poll otherwise.
func (l *lane) apply(r *runner, poll bool) {
	if l.clock.Staleness() != 0 {
		// A tick is a promise that the update is there: in SSP the queue must
		// be empty before a reader is let in.
		if poll || len(l.waiting) > 0 {
			l.merge(r, l.held, nil)
			l.held = nil
		}
		return
	}
	for len(l.held) > 0 {
		step := slices.MinFunc(l.held, func(a, b update) int { return int(a.step) - int(b.step) }).step
		if step >= l.clock.Min() {
			return
		}
		var due, rest []update
		for _, u := range l.held {
			if u.step == step {
				due = append(due, u)
			} else {
				rest = append(rest, u)
			}
		}
		l.held = rest
		l.merge(r, due, l.top)
	}
}

// merge adds updates (along top if there is one: update of worker w is x[w])
// and applies the sum once.
func (l *lane) merge(r *runner, due []update, top []tree.Merge) {
	if len(due) == 0 {
		return
	}
	n, at := len(due), func(i int) int { return i }
	if top != nil || l.clock.Staleness() == 0 {
		n, at = l.clock.Workers(), func(i int) int { return due[i].worker }
	} else {
		for i := 1; i < n; i++ {
			top = append(top, tree.Merge{Dst: 0, Src: int32(i)})
		}
	}
	sum, term := make([]float32, n), make([]string, n)
	for i, u := range due {
		sum[at(i)], term[at(i)] = u.value, fmt.Sprintf("w%d", u.worker)
		l.history = append(l.history, clock.Event{Kind: clock.Applied, Worker: u.worker, Step: u.step, Seq: u.seq})
	}
	for _, m := range top {
		switch {
		case term[m.Src] == "":
		case term[m.Dst] == "":
			sum[m.Dst], term[m.Dst] = sum[m.Src], term[m.Src]
		default:
			sum[m.Dst] += sum[m.Src]
			term[m.Dst] = "(" + term[m.Dst] + " + " + term[m.Src] + ")"
		}
	}
	l.value -= sum[0]
	l.version++
	r.printf("applied %s = %v: value %v, version %d\n", term[0], sum[0], l.value, l.version)
}

func (l *lane) leave(r *runner, w int) {
	l.clock.Leave(w)
	l.history = append(l.history, clock.Event{Kind: clock.Left, Worker: w})
	l.waiting = slices.DeleteFunc(l.waiting, func(p read) bool { return p.worker == w })
	l.apply(r, false)
	l.answer(r)
}

func workers(ids []int) string {
	s := make([]string, len(ids))
	for i, id := range ids {
		s[i] = fmt.Sprintf("worker %d", id)
	}
	return strings.Join(s, ", ")
}
