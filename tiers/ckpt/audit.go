package ckpt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"psrt/tiers/ckpt/files"
	"psrt/tiers/table"
)

// Report is what verification found.
type Report struct {
	Generations int
	Parts       int
	Bytes       int64
	Problems    []Problem // none: all is well
	// Digests is the generations whose model digest was computed anew from the
	// files and is the stated one.
	Digests []uint64
	// Models is the digests that were computed, by generation.
	Models map[uint64]string
}

// Problem is one thing that is wrong. Number is 0 for what is not one
// generation's.
type Problem struct {
	Number uint64
	Err    error
}

// VerifyAll checks everything at a location: each manifest, that each delta's
// parent is there and is the one it was made from, every byte of every part,
// and of each generation that no other follows, the number of rows and the
// digest of the model that its chain amounts to. It goes on after a problem; the
// error is for what is no verdict.
func VerifyAll(ctx context.Context, location string, workers int) (*Report, error) {
	f, err := openFS(ctx, location)
	if err != nil {
		return nil, err
	}
	return verifyAll(ctx, f, workers)
}

func verifyAll(ctx context.Context, f files.FS, workers int) (*Report, error) {
	s, err := look(ctx, f)
	if err != nil {
		return nil, err
	}
	entries, err := list(ctx, f, s)
	r := &Report{Generations: len(entries), Models: map[uint64]string{}}
	if errors.Is(err, ErrNoModel) {
		return nil, err
	}
	r.problem(0, err)
	followed, bad := map[uint64]bool{}, map[uint64]bool{}
	for _, e := range entries {
		r.problem(e.Number, e.Err)
		bad[e.Number] = e.Err != nil
		if e.Manifest == nil {
			continue
		}
		if e.Manifest.Parent != nil {
			followed[e.Manifest.Parent.Number] = true
			bad[e.Number] = bad[e.Number] || bad[e.Manifest.Parent.Number]
		}
		ok, err := r.parts(ctx, f, e.Manifest, workers)
		if err != nil {
			return nil, err
		}
		bad[e.Number] = bad[e.Number] || !ok
	}
	for _, e := range entries {
		if followed[e.Number] || bad[e.Number] {
			continue
		}
		chain := []*Manifest{e.Manifest}
		if !s.model {
			if chain, err = s.descent(ctx, e.Number); err != nil {
				return nil, err
			}
		}
		if err := r.whole(ctx, modelOf(f, chain), workers); err != nil {
			return nil, err
		}
	}
	return r, ctx.Err()
}

func (r *Report) problem(number uint64, err error) {
	if err != nil {
		r.Problems = append(r.Problems, Problem{number, err})
	}
}

// parts verifies each of a generation's parts.
func (r *Report) parts(ctx context.Context, f files.FS, m *Manifest, workers int) (ok bool, err error) {
	var mu sync.Mutex
	before := len(r.Problems)
	model := modelOf(f, []*Manifest{m})
	var tasks []func(context.Context) error
	for i := range m.Parts {
		p := &m.Parts[i]
		tasks = append(tasks, func(ctx context.Context) error {
			err := model.readPart(ctx, m, p, verifyPart)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			r.problem(m.Number, err)
			r.Parts, r.Bytes = r.Parts+1, r.Bytes+p.Bytes
			return nil
		})
	}
	for _, b := range m.Beside {
		tasks = append(tasks, func(ctx context.Context) error {
			_, err := model.ReadBeside(ctx, b)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			r.problem(m.Number, err)
			r.Bytes += b.Bytes
			return nil
		})
	}
	err = inParallel(ctx, workers, tasks)
	slices.SortStableFunc(r.Problems[before:], func(a, b Problem) int { return cmp.Compare(a.Err.Error(), b.Err.Error()) })
	return len(r.Problems) == before, err
}

// whole checks what a chain amounts to.
func (r *Report) whole(ctx context.Context, m *Model, workers int) error {
	var sum table.Digest
	for i := range m.Tables {
		s := &m.Tables[i]
		n, err := m.digestRows(ctx, s, workers, &sum)
		if err == nil {
			if want, exact := m.RowCount(s.ID); exact && n != want {
				err = corrupt(m.dir, "table %s of generation %d has %d rows, its manifest says %d", s.Name, m.Number, n, want)
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			r.problem(m.Number, err)
			return nil
		}
	}
	// A digest is comparable where all of it lies in the files: rows with a
	// lifecycle are brought up to date only when they are touched.
	if m.WeightsOnly || len(m.Lifecycle) > 0 || len(m.Dense) > 1 {
		return nil
	}
	if err := m.digestDense(ctx, &sum); err != nil {
		r.problem(m.Number, err)
		return ctx.Err()
	}
	got := sum.String()
	if r.Models[m.Number] = got; len(m.Digest) != len(got) {
		return nil // none was stated
	}
	if got != m.Digest {
		r.problem(m.Number, corrupt(m.dir, "the model of generation %d has digest %s, its manifest says %s", m.Number, got, m.Digest))
	} else {
		r.Digests = append(r.Digests, m.Number)
	}
	return nil
}

// digestRows adds a table's rows to a sum and counts them.
func (m *Model) digestRows(ctx context.Context, s *table.Spec, workers int, sum *table.Digest) (int64, error) {
	var mu sync.Mutex
	n := int64(0)
	hashers := sync.Pool{New: func() any { return &table.RowHasher{} }}
	err := m.Rows(ctx, s.ID, workers, nil, func(keys []uint64, rows []float32) error {
		h := hashers.Get().(*table.RowHasher)
		defer hashers.Put(h)
		var mine table.Digest
		width := len(rows) / len(keys)
		raw := make([]byte, 0, 4*width)
		for i, k := range keys {
			raw = appendFloats(raw[:0], rows[i*width:(i+1)*width])
			mine.Add(h.Hash(s.ID, k, raw))
		}
		mu.Lock()
		defer mu.Unlock()
		sum.Add(mine)
		n += int64(len(keys))
		return nil
	})
	return n, err
}

// denseTable stands for a table's ID in the digest of a dense block.
const denseTable = math.MaxUint32

// digestDense adds the blocks of the dense vector, numbered in their order.
func (m *Model) digestDense(ctx context.Context, sum *table.Digest) error {
	for _, d := range m.Dense {
		var firsts []int64
		if err := m.DenseBlocks(ctx, d.ID, func(first int64, _, _ []float32) error { firsts = append(firsts, first); return nil }); err != nil {
			return err
		}
		slices.Sort(firsts)
		var h table.RowHasher
		if err := m.DenseBlocks(ctx, d.ID, func(first int64, values, state []float32) error {
			i, _ := slices.BinarySearch(firsts, first)
			sum.Add(h.Hash(denseTable, uint64(i), appendFloats(appendFloats(nil, values), state)))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// String says what is wrong, one problem a line.
func (p Problem) String() string {
	if p.Number == 0 {
		return p.Err.Error()
	}
	return fmt.Sprintf("generation %d: %v", p.Number, p.Err)
}
