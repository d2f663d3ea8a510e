package judge

import (
	"slices"

	"psrt/sched/audit"
	"psrt/sched/tree"
)

// trial plays one row anew, with a fault, and compares it with what was seen.
type trial struct {
	*replay
	key uint64
	saw uint64
}

// play is the row after some changes.
func (t *trial) play(all []change) state {
	s, err := t.newState()
	if err != nil {
		return nil
	}
	next := t.begin()
	for _, c := range all {
		next = t.happen(s, next, c.event)
		if e := &t.h.events[c.event]; e.kind == audit.Load {
			if t.r.read(e.rows, &t.rec) != nil {
				continue
			}
			w := int(t.rec.Width)
			for k, key := range t.rec.Keys {
				if key == t.key {
					_ = s.load(key, slices.Clone(t.rec.Floats[k*w:(k+1)*w]))
				}
			}
			continue
		}
		if len(c.parts) > 0 {
			if r, ok := s.(*rows); ok && c.straight {
				r.straight(t.key, c.parts)
			} else {
				_ = s.apply(t.key, slices.Clone(c.parts))
			}
		}
	}
	t.happen(s, next, t.at)
	return s
}

// begin is the event from which on rows are what they are: the last Reset before now.
func (t *trial) begin() int {
	for i := t.at - 1; i >= 0; i-- {
		if t.h.events[i].kind == audit.Reset {
			return i
		}
	}
	return 0
}

// happen lets happen what happened to all rows from one event up to another.
func (t *trial) happen(s state, from, to int) (next int) {
	for ; s.lives() && from < to; from++ {
		if e := &t.h.events[from]; e.kind == audit.Happen {
			_ = s.happen(e.events)
		}
	}
	return max(from, to)
}

// is says whether some changes give what was seen.
func (t *trial) is(all []change) bool {
	if all == nil {
		return false
	}
	s := t.play(all)
	if s == nil {
		return false
	}
	defer s.close()
	is, other := s.hash(t.key)
	return is == t.saw || other == t.saw
}

// with has other parts in the i-th change.
func (t *trial) with(all []change, i int, parts []part) []change {
	out := slices.Clone(all)
	out[i].parts = parts
	return out
}

func without(parts []part, k int) []part { return slices.Delete(slices.Clone(parts), k, k+1) }

// again has one part of the i-th change once more, by itself.
func (t *trial) again(all []change, i, k int) []change {
	return slices.Insert(slices.Clone(all), i+1, change{event: all[i].event, parts: []part{all[i].parts[k]}})
}

// inOrder has the parts of the i-th change added as they came; nil where that is
// the same.
func (t *trial) inOrder(all []change, i int) []change {
	if len(all[i].parts) < 3 || t.r.head.StalenessOf(t.h.table) != 0 {
		return nil
	}
	out := slices.Clone(all)
	out[i].straight = true
	return out
}

// straight applies the sum of parts, added first to last.
func (r *rows) straight(key uint64, parts []part) {
	sum := add(parts, -1, r.head.Workers, []tree.Merge{})
	_ = r.apply(key, []part{{0, sum}})
}

// torn is where a row that is one state before and another behind gives what was
// seen; 0 for nowhere.
func (t *trial) torn(a, b []change) int {
	x, y := t.values(a), t.values(b)
	if len(x) != len(y) {
		return 0
	}
	mixed := slices.Clone(x)
	for _, pair := range [][2][]float32{{x, y}, {y, x}} {
		copy(mixed, pair[1])
		for i := 1; i < len(mixed); i++ {
			mixed[i-1] = pair[0][i-1]
			if audit.Hash(mixed) == t.saw {
				return i
			}
		}
	}
	return 0
}

func (t *trial) values(all []change) []float32 {
	s := t.play(all)
	if s == nil {
		return nil
	}
	defer s.close()
	switch s := s.(type) {
	case *rows:
		if s.find(t.key, true) != nil {
			return nil
		}
		s.t.Gather(s.row[:], s.out)
		s.t.Release(s.row[:])
		return slices.Clone(s.out)
	case *blocks:
		if i, ok := s.at[t.key]; ok {
			return slices.Clone(s.v.Values(i))
		}
	}
	return nil
}
