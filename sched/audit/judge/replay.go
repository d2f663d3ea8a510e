package judge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"psrt/sched/audit"
)

// replay puts the table together again, version by version, and compares.
type replay struct {
	*judgement
	state state
	pulls []*pull // by version
	next  int     // the first whose version is not over
	from  int     // the first whose version is not reached
	at    int     // the event that comes next
	rec   audit.Record
	parts map[uint64][]part
	order []uint64
	// path is, for each key, the events that changed it: for explain.
	path map[uint64][]int32
}

// mismatch is how an answer differs from a state.
type mismatch struct {
	keys []wrong
	of   int // keys compared
}

type wrong struct {
	key       uint64
	saw, want uint64 // hashes
}

// replay compares all values. What cannot be known ends it, with a note.
func (j *judgement) replay() error {
	if j.h.unlived != "" {
		j.r.note("%s", j.h.unlived)
		return nil
	}
	s, err := j.newState()
	if err == nil {
		defer s.close()
		p := &replay{judgement: j, state: s, parts: map[uint64][]part{}, path: map[uint64][]int32{}}
		for _, q := range j.h.pulls {
			if !q.right && q.version <= j.h.end() {
				p.pulls = append(p.pulls, q)
			}
		}
		slices.SortStableFunc(p.pulls, func(a, b *pull) int { return cmp.Compare(a.version, b.version) })
		err = p.run()
	}
	var un *unjudgedError
	if errors.As(err, &un) {
		j.r.note("%s", un.why)
		return nil
	}
	return err
}

func (p *replay) run() error {
	for i := range p.h.events {
		if i%1024 == 0 && p.r.ctx.Err() != nil {
			return context.Cause(p.r.ctx)
		}
		e := &p.h.events[i]
		p.at = i
		switch {
		case e.kind == audit.Happen:
			if err := errors.Join(p.compare(), p.state.happen(e.events)); err != nil {
				return err
			}
		case e.kind == audit.Take && e.flags&audit.LeftOut != 0:
			continue
		case e.kind == audit.Take:
			if err := p.leave(e.version); err != nil {
				return err
			}
			if err := p.take(i, e); err != nil {
				return err
			}
		case e.kind == audit.Reset:
			if err := p.compare(); err != nil {
				return err
			}
			if err := p.state.reset(); err != nil {
				return err
			}
			clear(p.path)
		case e.kind == audit.Load:
			if p.h.table == audit.DenseTable { // each load is one of all blocks
				if err := p.compare(); err != nil {
					return err
				}
			}
			if err := p.r.read(e.rows, &p.rec); err != nil {
				return err
			}
			w := int(p.rec.Width)
			for k, key := range p.rec.Keys {
				if err := p.state.load(key, p.rec.Floats[k*w:(k+1)*w]); err != nil {
					return err
				}
				p.path[key] = append(p.path[key][:0], int32(i))
			}
		}
	}
	p.at = len(p.h.events)
	return p.leave(never)
}

const never = ^uint64(0)

// leave ends the version before one: its pulls are compared with the last state
// that it had, and those that fit none are wrong.
func (p *replay) leave(version uint64) error {
	if err := p.compare(); err != nil {
		return err
	}
	for ; p.next < len(p.pulls) && p.pulls[p.next].version < version; p.next++ {
		q := p.pulls[p.next]
		if !q.right && q.best != nil {
			p.wrong(q)
		}
		q.best = nil
	}
	return nil
}

// compare looks at the pulls of this version: those before the next Take's.
func (p *replay) compare() error {
	at := p.version()
	for i := p.next; i < len(p.pulls) && p.pulls[i].version <= at; i++ {
		q := p.pulls[i]
		if q.right || q.version < at {
			continue
		}
		m, err := p.differ(q)
		if err != nil {
			return err
		}
		p.r.out.Values += m.of
		if q.best != nil && p.state.lives() { // rows of one answer may have been looked at before and after an event
			m.keys = both(m.keys, q.best.keys)
		}
		if len(m.keys) == 0 {
			q.right = true
		} else if q.best == nil || len(m.keys) < len(q.best.keys) {
			q.best = m
		}
	}
	return nil
}

// both is what is in two lists, each in the order of the answer.
func both(a, b []wrong) (in []wrong) {
	for _, x := range a {
		if slices.ContainsFunc(b, func(y wrong) bool { return x.key == y.key }) {
			in = append(in, x)
		}
	}
	return in
}

// version is that of the state.
func (p *replay) version() uint64 { return uint64(p.from) }

// differ compares an answer with the state.
func (p *replay) differ(q *pull) (*mismatch, error) {
	m := &mismatch{}
	for _, at := range q.values {
		if err := p.r.read(at, &p.rec); err != nil {
			return nil, err
		}
		for i, key := range p.rec.Keys {
			is, other := p.state.hash(key)
			m.of++
			if saw := p.rec.Hashes[i]; saw != is && (saw != other || q.flags&audit.Creates != 0) {
				m.keys = append(m.keys, wrong{key, saw, is})
			}
		}
	}
	return m, nil
}

// take brings the state to the next version.
func (p *replay) take(i int, e *event) error {
	for _, k := range p.order {
		p.parts[k] = p.parts[k][:0]
	}
	p.order = p.order[:0]
	for _, t := range e.pushes {
		if err := p.gather(t); err != nil {
			return err
		}
	}
	for _, key := range p.order {
		if err := p.state.apply(key, p.parts[key]); err != nil {
			return err
		}
		p.path[key] = append(p.path[key], int32(i))
	}
	p.from = int(e.version)
	return nil
}

// gather adds what a push has to the parts.
func (p *replay) gather(t audit.Push) error {
	sent := p.h.pushes[p.r.idOf(&t)]
	if sent == nil || sent.sent == nil {
		return &unjudgedError{fmt.Sprintf("values of table %s in lane %d are compared up to version %d: what push %d of worker %d had is not recorded",
			p.table, p.h.lane, p.from, t.Seq, t.Worker)}
	}
	if p.h.table == audit.DenseTable && sent.refused > 0 {
		return &unjudgedError{fmt.Sprintf("dense values in lane %d are compared up to version %d: part of push %d of worker %d was not finite", p.h.lane, p.from, t.Seq, t.Worker)}
	}
	if sent.flags&audit.Absent != 0 && p.h.table == audit.DenseTable {
		for i := range p.h.head.Dense.Blocks {
			p.give(uint64(p.h.head.Dense.Blocks[i].Index), part{int(t.Worker), nil})
		}
		return nil
	}
	for _, at := range sent.sent {
		if err := p.r.read(at, &p.rec); err != nil {
			return err
		}
		w := int(p.rec.Width)
		if err := p.state.fits(p.rec.Keys, w); err != nil {
			return err
		}
		for k, key := range p.rec.Keys {
			p.give(key, part{int(t.Worker), slices.Clone(p.rec.Floats[k*w : (k+1)*w])})
		}
	}
	return nil
}

func (p *replay) give(key uint64, what part) {
	if len(p.parts[key]) == 0 {
		p.order = append(p.order, key)
	}
	p.parts[key] = append(p.parts[key], what)
}

// wrong reports an answer that fits no state of its version.
func (p *replay) wrong(q *pull) {
	w := q.best.keys[0]
	what, other := p.explain(q, w)
	v := &Violation{Kind: Value, Pull: q.ref(), Key: &w.key, Push: other,
		Text: fmt.Sprintf("%s was answered with version %d, but %s is not what it was then%s (%d of the answer's %d sampled values are wrong)",
			q.ref(), q.version, p.nameOf(w.key), what, len(q.best.keys), q.best.of)}
	p.broken(v)
}

func (p *replay) nameOf(key uint64) string {
	if p.h.table == audit.DenseTable {
		return fmt.Sprintf("block %d", key)
	}
	return fmt.Sprintf("key %d", key)
}
