package judge

import (
	"fmt"
	"slices"

	"psrt/sched/audit"
)

// explainNear is how many changes of a row before and after an answer are tried
// for what explains it.
const explainNear = 48

// change is one event that changed a row, with its parts, and whose they are.
type change struct {
	event int
	parts []part
	from  []audit.Push
	// straight: not along the tree, but as they came.
	straight bool
}

// explain finds the smallest fault that gives what was seen: words for it, and the
// push it is about.
func (p *replay) explain(q *pull, w wrong) (string, *PushRef) {
	if p.count[Value] >= eachMost { // it would not be shown
		return "", nil
	}
	if k, ok := p.swapped(q, w); ok {
		return fmt.Sprintf(": it is %s's", p.nameOf(k)), nil
	}
	before, after, err := p.changes(q, w.key)
	if err != nil {
		return "", nil
	}
	t := &trial{replay: p, key: w.key, saw: w.saw}
	n := len(before)
	for i := n - 1; i >= 0 && i >= n-explainNear; i-- { // an older version
		if t.is(before[:i]) {
			c := before[i]
			return fmt.Sprintf(": it is as before version %d, without %s", p.h.events[c.event].version, names(c.from)), p.refOf(c, 0)
		}
	}
	for i := range min(len(after), explainNear) { // a newer one
		if t.is(append(before[:n:n], after[:i+1]...)) {
			c := after[i]
			return fmt.Sprintf(": it is as of version %d, with %s already", p.h.events[c.event].version, names(c.from)), p.refOf(c, 0)
		}
	}
	for i := n - 1; i >= 0 && i >= n-explainNear; i-- {
		for k := range before[i].parts {
			if less := t.with(before, i, without(before[i].parts, k)); t.is(less) {
				ref := p.refOf(before[i], k)
				return fmt.Sprintf(": %s is not in it", ref), ref
			}
			if twice := t.with(before, i, append(before[i].parts[:len(before[i].parts):len(before[i].parts)], before[i].parts[k])); t.is(twice) || t.is(t.again(before, i, k)) {
				ref := p.refOf(before[i], k)
				return fmt.Sprintf(": %s is in it twice", ref), ref
			}
		}
		// The whole of a step, as it was added up.
		if t.is(slices.Delete(slices.Clone(before), i, i+1)) {
			return fmt.Sprintf(": version %d is not in it, with %s", p.h.events[before[i].event].version, names(before[i].from)), p.refOf(before[i], 0)
		}
		if t.is(append(append(before[:i+1:i+1], before[i]), before[i+1:]...)) {
			return fmt.Sprintf(": version %d is in it twice, with %s", p.h.events[before[i].event].version, names(before[i].from)), p.refOf(before[i], 0)
		}
		if t.is(t.inOrder(before, i)) {
			return fmt.Sprintf(": the pushes of version %d were not added along the tree", p.h.events[before[i].event].version), p.refOf(before[i], 0)
		}
	}
	for i := n - 1; i >= 0 && i >= n-explainNear; i-- {
		if at := t.torn(before[:i], before); at > 0 {
			return fmt.Sprintf(": it is torn, its first %d floats being older or newer than the others, around version %d", at, p.h.events[before[i].event].version), p.refOf(before[i], 0)
		}
	}
	for i := range min(len(after), explainNear) {
		if at := t.torn(before, append(before[:n:n], after[:i+1]...)); at > 0 {
			return fmt.Sprintf(": it is torn, its first %d floats being older or newer than the others, around version %d", at, p.h.events[after[i].event].version), p.refOf(after[i], 0)
		}
	}
	if n > 0 {
		return "", p.refOf(before[n-1], 0)
	}
	return "", nil
}

func (p *replay) refOf(c change, k int) *PushRef {
	if k >= len(c.from) {
		return nil
	}
	f := c.from[k]
	return &PushRef{int(f.Worker), f.Clock, f.Seq, p.h.events[c.event].version}
}

// swapped looks for another row of the answer that has these values.
func (p *replay) swapped(q *pull, w wrong) (uint64, bool) {
	for _, at := range q.values {
		if p.r.read(at, &p.rec) != nil {
			return 0, false
		}
		for _, key := range p.rec.Keys {
			if is, other := p.state.hash(key); key != w.key && is == w.saw && is != other {
				return key, true
			} else if key != w.key && is == w.saw && p.changed(key) {
				return key, true
			}
		}
	}
	return 0, false
}

func (p *replay) changed(key uint64) bool { return len(p.path[key]) > 0 }

// changes are those of a row since it was loaded, or began: with the state's
// version, and later.
func (p *replay) changes(q *pull, key uint64) (before, after []change, err error) {
	for _, i := range p.path[key] {
		c, err := p.change(int(i), key)
		if err != nil {
			return nil, nil, err
		}
		before = append(before, c)
	}
	last := -1
	for i := range p.h.events {
		if p.h.events[i].kind == audit.Take && p.h.events[i].version <= uint64(p.from) {
			last = i
		}
	}
	for i := last + 1; i < len(p.h.events) && len(after) < explainNear && i < last+16*explainNear; i++ {
		if e := &p.h.events[i]; e.kind != audit.Take || e.flags&audit.LeftOut != 0 {
			continue
		}
		c, err := p.change(i, key)
		if err != nil {
			break // what is not known is no explanation
		}
		if len(c.parts) > 0 {
			after = append(after, c)
		}
	}
	return before, after, nil
}

// change reads what one event did to a row.
func (p *replay) change(i int, key uint64) (change, error) {
	c := change{event: i}
	e := &p.h.events[i]
	if e.kind == audit.Load {
		return c, nil
	}
	for _, t := range e.pushes {
		sent := p.h.pushes[p.r.idOf(&t)]
		if sent == nil || sent.sent == nil {
			return c, errUnknown
		}
		if sent.flags&audit.Absent != 0 {
			c.parts, c.from = append(c.parts, part{int(t.Worker), nil}), append(c.from, t)
			continue
		}
		for _, at := range sent.sent {
			if err := p.r.read(at, &p.rec); err != nil {
				return c, err
			}
			w := int(p.rec.Width)
			for k := range p.rec.Keys {
				if p.rec.Keys[k] == key {
					c.parts = append(c.parts, part{int(t.Worker), append([]float32(nil), p.rec.Floats[k*w:(k+1)*w]...)})
					c.from = append(c.from, t)
				}
			}
		}
	}
	return c, nil
}

var errUnknown = &unjudgedError{"a push that is not recorded"}
