package ckpt

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"psrt/tiers/table"
)

// TableDiff is what has changed in a table from one model to another.
type TableDiff struct {
	Name    string      `json:"table"`
	ID      uint32      `json:"id"`
	Before  int64       `json:"before"` // rows
	After   int64       `json:"after"`
	Added   int64       `json:"added"`
	Changed int64       `json:"changed"` // in any bit that both models have
	Deleted int64       `json:"deleted"`
	Largest []RowChange `json:"largest"` // changed rows, the largest first
}

// RowChange is a row and the largest change of any of its weights.
type RowChange struct {
	Key    uint64  `json:"key"`
	Change float64 `json:"change"`
}

// DenseDiff is what has changed in a dense vector.
type DenseDiff struct {
	Name     string  `json:"dense"`
	Elements int64   `json:"elements"`
	Changed  int64   `json:"changed"`
	Largest  float64 `json:"largest"` // change of an element
}

// Difference is that between two models.
type Difference struct {
	Tables []TableDiff `json:"tables"`
	Dense  []DenseDiff `json:"dense"`
}

// diffBudget bounds the memory for rows of the older model; more of them make
// Diff read both models once more for each further share.
const diffBudget = 512 << 20

// Diff compares two models, top changed rows of each table by name.
func Diff(ctx context.Context, before, after *Model, workers, top int) (*Difference, error) {
	return diff(ctx, before, after, workers, top, diffBudget)
}

func diff(ctx context.Context, before, after *Model, workers, top int, budget int64) (*Difference, error) {
	d := &Difference{Tables: []TableDiff{}, Dense: []DenseDiff{}}
	ids := map[uint32]bool{}
	for _, m := range []*Model{before, after} {
		for i := range m.Tables {
			s := m.Tables[i]
			if ids[s.ID] {
				continue
			}
			ids[s.ID] = true
			c := &comparison{before: before, after: after, top: top, TableDiff: TableDiff{Name: s.Name, ID: s.ID, Largest: []RowChange{}}}
			if err := c.table(ctx, workers, budget); err != nil {
				return nil, err
			}
			d.Tables = append(d.Tables, c.TableDiff)
		}
	}
	for _, s := range after.Dense {
		x, err := diffDense(ctx, before, after, s)
		if err != nil {
			return nil, err
		}
		d.Dense = append(d.Dense, x)
	}
	return d, nil
}

// comparison is of one table.
type comparison struct {
	before, after *Model
	top           int
	TableDiff

	mu     sync.Mutex
	width  int // floats that both have
	places map[uint64]int
	rows   []float32 // of before, width each
	met    []bool    // whether after has them, too
}

func (c *comparison) table(ctx context.Context, workers int, budget int64) error {
	was, is := c.before.Spec(c.ID), c.after.Spec(c.ID)
	rows := int64(0)
	if was != nil {
		rows, _ = c.before.RowCount(c.ID)
	}
	if was != nil && is != nil {
		if was.Dim != is.Dim || was.RowFloats() != is.RowFloats() {
			return fmt.Errorf("ckpt: table %s has %d weights of %d floats a row in %s, %d of %d in %s: they cannot be compared",
				c.Name, was.Dim, was.RowFloats(), c.before.dir, is.Dim, is.RowFloats(), c.after.dir)
		}
	}
	spec := cmp.Or(was, is)
	if c.width = spec.RowFloats(); c.before.WeightsOnly || c.after.WeightsOnly {
		c.width = spec.Dim
	}
	// A place in the map takes about 40 bytes.
	passes := int(rows*int64(4*c.width+40)/budget) + 1
	for pass := range passes {
		if err := c.pass(ctx, workers, pass, passes, was, is); err != nil {
			return err
		}
	}
	c.shorten()
	return nil
}

func (c *comparison) pass(ctx context.Context, workers, pass, passes int, was, is *table.Spec) error {
	c.places, c.rows, c.met = map[uint64]int{}, c.rows[:0], c.met[:0]
	// each calls f for the rows of this pass, one at a time.
	each := func(m *Model, f func(key uint64, row []float32)) error {
		return m.Rows(ctx, c.ID, workers, nil, func(keys []uint64, rows []float32) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			n := len(rows) / len(keys)
			for i, k := range keys {
				if passOf(k, passes) == pass {
					f(k, rows[i*n:i*n+c.width])
				}
			}
			return nil
		})
	}
	if was != nil {
		if err := each(c.before, func(key uint64, row []float32) {
			c.places[key] = len(c.met)
			c.rows, c.met = append(c.rows, row...), append(c.met, false)
		}); err != nil {
			return err
		}
	}
	if is != nil {
		dim := is.Dim
		if err := each(c.after, func(key uint64, row []float32) { c.meet(key, row, dim) }); err != nil {
			return err
		}
	}
	c.Before += int64(len(c.met))
	for _, met := range c.met {
		if !met {
			c.Deleted++
		}
	}
	return nil
}

// meet compares a row of after.
func (c *comparison) meet(key uint64, row []float32, dim int) {
	c.After++
	at, ok := c.places[key]
	if !ok {
		c.Added++
		return
	}
	c.met[at] = true
	old := c.rows[at*c.width : (at+1)*c.width]
	if sameBits(old, row) {
		return
	}
	c.Changed++
	c.Largest = append(c.Largest, RowChange{key, change(old[:dim], row[:dim])})
	if len(c.Largest) >= 2*c.top+64 {
		c.shorten()
	}
}

// shorten keeps the largest changes.
func (c *comparison) shorten() {
	slices.SortFunc(c.Largest, func(a, b RowChange) int { return cmp.Or(cmp.Compare(b.Change, a.Change), cmp.Compare(a.Key, b.Key)) })
	c.Largest = c.Largest[:min(len(c.Largest), c.top)]
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// change is the largest of a weight; what became or was no number counts as
// the largest number there is, so that JSON can carry it.
func change(a, b []float32) float64 {
	most := 0.0
	for i := range a {
		d := math.Abs(float64(b[i]) - float64(a[i]))
		if math.IsNaN(d) || math.IsInf(d, 0) {
			d = math.MaxFloat64
		}
		most = max(most, d)
	}
	return most
}

func diffDense(ctx context.Context, before, after *Model, s DenseSpec) (DenseDiff, error) {
	d := DenseDiff{Name: s.Name, Elements: s.Elements}
	was := before.denseSpec(s.ID)
	if was == nil || was.Elements != s.Elements {
		d.Changed = s.Elements
		return d, nil
	}
	old := make([]float32, s.Elements)
	if err := before.DenseBlocks(ctx, s.ID, func(first int64, v, _ []float32) error { copy(old[first:], v); return nil }); err != nil {
		return d, err
	}
	return d, after.DenseBlocks(ctx, s.ID, func(first int64, v, _ []float32) error {
		for i, x := range v {
			if o := old[first+int64(i)]; math.Float32bits(o) != math.Float32bits(x) {
				d.Changed++
				d.Largest = max(d.Largest, change([]float32{o}, []float32{x}))
			}
		}
		return nil
	})
}
