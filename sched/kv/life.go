package kv

import (
	"context"
	"errors"
	"math"
	"time"

	"psrt/sched/psmsg"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// Counts are how often the keys of a push were shown and clicked, and their slots
// (fields), in the keys' order. nil is one show each, no click, slot 0.
type Counts struct {
	Shows, Clicks []float32
	Slots         []uint32
}

// counted is what a push to a table with a lifecycle carries: slot, show and click
// before each gradient. Other tables take gradients as they are.
func (t *Table) counted(n int, grads []float32, c *Counts) ([]float32, error) {
	if err := t.check(n, len(grads)); err != nil {
		return nil, err
	}
	if t.spec.Lifecycle == nil {
		if c != nil {
			return nil, errorf(Mismatch, "kv: table %q has no lifecycle and counts nothing; push without counts, or give it a `lifecycle:`", t.spec.Name)
		}
		return grads, nil
	}
	if c == nil {
		c = &Counts{}
	}
	for name, given := range map[string]int{"shows": len(c.Shows), "clicks": len(c.Clicks), "slots": len(c.Slots)} {
		if given != 0 && given != n {
			return nil, errorf(Invalid, "kv: table %q: %d %s for %d keys, want one each or none", t.spec.Name, given, name, n)
		}
	}
	dim, width := t.spec.Dim, t.spec.PushFloats()
	out := make([]float32, n*width)
	for i := range n {
		row := out[i*width : (i+1)*width]
		row[1] = 1
		if c.Shows != nil {
			row[1] = c.Shows[i]
		}
		if c.Clicks != nil {
			row[2] = c.Clicks[i]
		}
		if c.Slots != nil {
			if c.Slots[i] > table.MaxSlot {
				return nil, errorf(Invalid, "kv: table %q: slot %d of key %d of the call, at most %d", t.spec.Name, c.Slots[i], i, table.MaxSlot)
			}
			row[0] = float32(c.Slots[i])
		}
		if !(row[1] >= 0 && row[2] >= 0) || math.IsInf(float64(row[1]), 0) || math.IsInf(float64(row[2]), 0) {
			return nil, errorf(Invalid, "kv: table %q: key %d of the call was shown %v and clicked %v times, want finite numbers, not negative", t.spec.Name, i, row[1], row[2])
		}
		copy(row[table.PushCounts:], grads[i*dim:(i+1)*dim])
	}
	t.c.copied.Add(uint64(len(grads)) * 4)
	return out, nil
}

// lastSlots gives keys that repeat the slot of the last: their sum says nothing.
func (x *set) lastSlots(spec *table.Spec, rows, grads []float32) {
	width := spec.PushFloats()
	if spec.Lifecycle == nil || x.plain || len(rows) == len(x.index)*width {
		return
	}
	for i, r := range x.index {
		rows[int(r)*width] = grads[i*width]
	}
}

// Shrink has the counters of all rows decay, and rows go that are not worth their
// place; EndDay has a day pass. Both take effect between two steps, at every server:
// under bsp before this worker's current one, else at once. One worker of the job
// calls them.
func (t *Table) Shrink(limit time.Duration) error {
	return t.happen(limit, accessor.Event{Kind: accessor.Shrink})
}

// EndDay is a day; see Shrink.
func (t *Table) EndDay(limit time.Duration) error {
	return t.happen(limit, accessor.Event{Kind: accessor.Day})
}

// happenPause is between two attempts to reach a server that was lost.
const happenPause = 50 * time.Millisecond

func (t *Table) happen(limit time.Duration, e accessor.Event) error {
	if t.spec.Lifecycle == nil {
		return errorf(Mismatch, "kv: table %q has no lifecycle: nothing happens to its rows; give it a `lifecycle:`", t.spec.Name)
	}
	if err := t.c.enter(); err != nil {
		return err
	}
	defer t.c.leave()
	ctx, cancel := context.WithTimeout(t.c.ctx, t.c.timeout(limit))
	defer cancel()
	have, err := t.tell(ctx, 0, psmsg.HappenRequest{Tell: true, From: 0})
	if err != nil {
		return err
	}
	req := psmsg.HappenRequest{From: have.Len, Events: accessor.FormatEvents(e)}
	if t.c.job.Staleness == 0 {
		req.Step = t.c.Step()
	}
	for i := range t.c.c.Servers() {
		if i > 0 { // it may lack what somebody else began and did not end
			if err := t.catchUp(ctx, i, req); err != nil {
				return err
			}
		}
		rep, err := t.tell(ctx, i, req)
		if err != nil {
			return err
		}
		if rep.Missing != "" {
			return errorf(Busy, "kv: table %q: another worker had something happen to it at the same time; one worker of the job does", t.spec.Name)
		}
	}
	return nil
}

// catchUp has a server have all that server 0 had before.
func (t *Table) catchUp(ctx context.Context, server int, req psmsg.HappenRequest) error {
	have, err := t.tell(ctx, server, psmsg.HappenRequest{Tell: true})
	if err != nil || have.Len >= req.From {
		return err
	}
	all, err := t.tell(ctx, 0, psmsg.HappenRequest{Tell: true, From: have.Len})
	if err != nil {
		return err
	}
	events, err := accessor.ParseEvents(all.Missing)
	if err != nil || len(events) < req.From-have.Len {
		return errorf(Refused, "kv: table %q: server 0's history %q is not understood", t.spec.Name, all.Missing)
	}
	_, err = t.tell(ctx, server, psmsg.HappenRequest{From: have.Len, Step: req.Step, Events: accessor.FormatEvents(events[:req.From-have.Len]...)})
	return err
}

// tell asks until there is an answer: what comes twice happens once.
func (t *Table) tell(ctx context.Context, server int, req psmsg.HappenRequest) (rep psmsg.HappenReply, err error) {
	req.Table = t.spec.ID
	for {
		err = t.c.call(ctx, server, psmsg.MethodHappen, req, &rep)
		var e *Error
		if err == nil || !errors.As(err, &e) || e.Code != Connect || ctx.Err() != nil {
			return rep, err
		}
		select {
		case <-time.After(happenPause):
		case <-ctx.Done():
			return rep, err
		}
	}
}
