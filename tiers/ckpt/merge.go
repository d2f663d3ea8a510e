package ckpt

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"psrt/tiers/table"
)

// Merge writes a base that is the sum of a generation (0: the newest) and all
// that it descends from, and makes it the newest. Its rows, digest, position,
// step and what lies beside its parts are that generation's. What was
// quantised is written as the floats that it stands for. Up to workers parts
// are written at once.
func (h *History) Merge(ctx context.Context, number uint64, workers int) (*Manifest, error) {
	m, err := openIn(ctx, h.fs, func(s *shelf) (uint64, error) {
		if number > 0 {
			s.head, s.headErr = nil, nil
			return number, nil
		}
		return s.last(), nil
	})
	if err != nil {
		return nil, err
	}
	h.StartRun(m.Run)
	n, err := h.Begin(ctx, NextOptions{WeightsOnly: m.WeightsOnly, Compress: m.Compress})
	if err != nil {
		return nil, err
	}
	parts, err := m.rewrite(ctx, n.Writer(ctx), workers)
	var beside []Beside
	if err == nil {
		beside, err = m.copyBeside(ctx, n.Ticket())
	}
	if err != nil {
		_ = n.Abort() // the error that matters is err
		return nil, err
	}
	of := m.Ref()
	return n.Commit(ctx, Manifest{Lineage: Lineage{Merged: &of}, Step: m.Step, Position: m.Position, Lifecycle: m.Lifecycle,
		Meta: m.Meta, Digest: m.Digest, Slots: m.Slots, Tables: m.Tables, Dense: m.Dense, Parts: parts, Beside: beside})
}

// rewrite writes all of a model as the parts of a base: of each table one for
// each group, of each dense vector one.
func (m *Model) rewrite(ctx context.Context, w *Writer, workers int) ([]Part, error) {
	var mu sync.Mutex
	var parts []Part
	var tasks []func(context.Context) error
	add := func(p Part, err error) error {
		mu.Lock()
		defer mu.Unlock()
		parts = append(parts, p)
		return err
	}
	for i := range m.Tables {
		spec := m.Tables[i]
		groups, err := m.groups(spec.ID, nil)
		if err != nil {
			return nil, err
		}
		for k, g := range groups {
			name := fmt.Sprintf("t%d-%d", spec.ID, k)
			budget := m.keyBudget / int64(max(1, min(workers, len(groups))))
			tasks = append(tasks, func(ctx context.Context) error { return add(m.rewriteRows(ctx, w, name, spec, g, budget)) })
		}
	}
	for _, d := range m.Dense {
		tasks = append(tasks, func(ctx context.Context) error { return add(m.rewriteDense(ctx, w, d)) })
	}
	err := inParallel(ctx, workers, tasks)
	slices.SortFunc(parts, func(a, b Part) int {
		if a.File < b.File {
			return -1
		}
		return 1
	})
	return parts, err
}

func (m *Model) rewriteRows(ctx context.Context, w *Writer, name string, spec table.Spec, g group, budget int64) (Part, error) {
	var covers []Range
	for _, s := range g {
		if s.of.Number == m.Number { // each generation covers each slot once
			covers = append(covers, s.part.Covers...)
		}
	}
	slices.SortFunc(covers, func(a, b Range) int { return int(a.First - b.First) })
	r, err := w.Rows(name, spec, covers)
	if err != nil {
		return Part{}, err
	}
	defer r.Abort()
	if m.WeightsOnly {
		r.floats = spec.Dim // rows come as they are in the file
	}
	err = m.readGroup(ctx, g, budget, func(keys []uint64, rows []float32) error {
		for i, k := range keys {
			if err := r.Add(k, rows[i*r.floats:(i+1)*r.floats]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Part{}, err
	}
	return r.Close()
}

func (m *Model) rewriteDense(ctx context.Context, w *Writer, spec DenseSpec) (Part, error) {
	d, err := w.Dense(fmt.Sprintf("dense-%d", spec.ID), spec.ID)
	if err != nil {
		return Part{}, err
	}
	defer d.Abort()
	if err := m.DenseBlocks(ctx, spec.ID, d.Add); err != nil {
		return Part{}, err
	}
	return d.Close()
}
