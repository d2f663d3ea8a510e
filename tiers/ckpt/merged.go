package ckpt

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
)

// keyBudget bounds the memory for the ids of deltas while a chain is read. More
// ids than fit make the reader go over the chain's files once more for each
// further share of them.
const keyBudget = 256 << 20

// Rows calls f for the rows of a table, a batch at a time: rows holds
// len(keys) rows behind one another, each the weights and, unless the model is
// weights only, the optimizer's state. Both are f's until it returns. Up to
// workers parts are read at once, so f is called by several goroutines. Parts
// that cover none of the slots in want are left out; nil wants all. Every byte
// is checked before f sees it.
//
// Of a chain f sees each row once, as the newest generation that has it says,
// and no row that has been deleted since. With some slots wanted, rows of others
// may come along, and these may be out of date: callers ignore them.
//
// Memory is bounded by workers x (the reads ahead and a block) and by keyBudget
// over all workers: generations are read from the newest to the base, and the
// ids of those after the base are kept, to leave out what is older.
func (m *Model) Rows(ctx context.Context, tableID uint32, workers int, want []Range, f func(keys []uint64, rows []float32) error) error {
	groups, err := m.groups(tableID, want)
	if err != nil {
		return err
	}
	workers = max(1, min(workers, len(groups)))
	var tasks []func(context.Context) error
	for _, g := range groups {
		tasks = append(tasks, func(ctx context.Context) error { return m.readGroup(ctx, g, m.keyBudget/int64(workers), f) })
	}
	return inParallel(ctx, workers, tasks)
}

// source is a part and whose it is.
type source struct {
	of   *Manifest
	part *Part
}

// group is parts of a table, newest first, of which no other group's part
// covers a slot. With one layout for all of a chain it is one lane's.
type group []source

// groups are the parts of a table that cover a wanted slot.
func (m *Model) groups(tableID uint32, want []Range) ([]group, error) {
	if m.Spec(tableID) == nil {
		return nil, fmt.Errorf("ckpt: %s has no table %d", m.dir, tableID)
	}
	var all []source
	for _, of := range slices.Backward(m.chain) {
		if of.Spec(tableID) == nil {
			break // the table is younger than this
		}
		for i := range of.Parts {
			if p := &of.Parts[i]; !p.Dense && p.Table == tableID && (want == nil || meets(p.Covers, want)) {
				all = append(all, source{of, p})
			}
		}
	}
	return connected(all), nil
}

// connected cuts sources, newest first, into groups. A sweep over all ranges
// in their order joins those that overlap.
func connected(all []source) []group {
	parent := make([]int, len(all))
	for i := range parent {
		parent[i] = i
	}
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	type span struct {
		Range
		of int
	}
	var spans []span
	for i, s := range all {
		for _, r := range s.part.Covers {
			if r.First < r.Last {
				spans = append(spans, span{r, i})
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.First - b.First) })
	far := -1 // the span that reaches furthest so far
	for i, s := range spans {
		if far >= 0 && s.First < spans[far].Last {
			parent[find(s.of)] = find(spans[far].of)
		}
		if far < 0 || s.Last > spans[far].Last {
			far = i
		}
	}
	byRoot := map[int]int{}
	var groups []group
	for i, s := range all {
		root := find(i)
		at, ok := byRoot[root]
		if !ok {
			at = len(groups)
			byRoot[root] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], s)
	}
	return groups
}

// ids is how many ids a reader must remember: those of all but the oldest
// generation.
func (g group) ids() int64 {
	n := int64(0)
	for _, s := range g {
		if s.of != g[len(g)-1].of {
			n += s.part.Records
		}
	}
	return n
}

// passes is how often a group is read so that its ids fit into a budget.
func (g group) passes(budget int64) int {
	return int(max(1, (g.ids()*keyBytes+budget-1)/max(1, budget)))
}

func (m *Model) readGroup(ctx context.Context, g group, budget int64, f func([]uint64, []float32) error) error {
	passes := g.passes(budget)
	c := &collector{m: m, f: f, passes: passes, last: g[len(g)-1].of}
	c.floats = (m.recordBytes(m.Spec(g[0].part.Table)) - 8) / 4
	if m.Quantise != QuantNone {
		c.floats = m.Spec(g[0].part.Table).Dim
	}
	for c.pass = range passes {
		c.seen.reset(int(g.ids()) / passes)
		for _, s := range g {
			if err := m.readPart(ctx, s.of, s.part, c.part); err != nil {
				return err
			}
		}
	}
	return nil
}

// collector hands on what is not known yet.
type collector struct {
	m      *Model
	f      func([]uint64, []float32) error
	floats int // of a row handed on
	seen   keySet
	last   *Manifest // the oldest generation: its ids need not be kept

	pass, passes int
	keys         []uint64
	places       []int32 // in the block
	rows         []float32
	// gone is the deletions of the part being read. They count when all of it has
	// been: a row that was deleted and made again is in it both ways.
	gone []uint64
}

func (c *collector) part(ctx context.Context, r *partReader) error {
	c.gone = c.gone[:0]
	err := r.rows(ctx, func(b []byte, record int, gone bool) error {
		if gone {
			c.bury(b)
			return nil
		}
		c.choose(r, b, record)
		if len(c.keys) == 0 {
			return nil
		}
		c.decode(r, b, record)
		return c.f(c.keys, c.rows)
	})
	for _, key := range c.gone {
		c.seen.add(key)
	}
	return err
}

func (c *collector) bury(ids []byte) {
	for ; len(ids) > 0; ids = ids[8:] {
		if key := binary.LittleEndian.Uint64(ids); c.passes == 1 || passOf(key, c.passes) == c.pass {
			c.gone = append(c.gone, key)
		}
	}
}

// choose finds the rows of a block that nothing newer has.
func (c *collector) choose(r *partReader, b []byte, record int) {
	c.keys, c.places = c.keys[:0], c.places[:0]
	keep, none := r.m != c.last, c.seen.len() == 0
	for at := 0; at < len(b); at += record {
		key := binary.LittleEndian.Uint64(b[at:])
		if c.passes > 1 && passOf(key, c.passes) != c.pass {
			continue
		}
		if keep && !c.seen.add(key) || !keep && !none && c.seen.has(key) {
			continue
		}
		c.keys, c.places = append(c.keys, key), append(c.places, int32(at+8))
	}
}

// decode reads the chosen rows.
func (c *collector) decode(r *partReader, b []byte, record int) {
	n := len(c.keys) * c.floats
	c.rows = slices.Grow(c.rows[:0], n)[:n]
	for i, at := range c.places {
		row := c.rows[i*c.floats : (i+1)*c.floats]
		if r.m.Quantise != QuantNone {
			decodeQuantised(row[:0], b[at:], r.m.Quantise, c.floats)
		} else {
			getFloats(row, b[at:])
		}
	}
}
