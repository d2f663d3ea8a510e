package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Model is an opened model. It may be read by several goroutines, and needs no
// closing: files are opened while they are read.
type Model struct {
	dir string
	Manifest
}

// Open reads and checks the manifest, and that the parts are there with the
// size and the header they should have. Their contents are checked as they are
// read.
func Open(dir string) (*Model, error) {
	path := filepath.Join(dir, ManifestName)
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("ckpt: %s: %w (it has no %s); give the --out directory of a finished psrt train", dir, ErrNoModel, ManifestName)
	}
	if err != nil {
		return nil, explain("opening", path, err)
	}
	if st.Size() > maxManifest {
		return nil, corrupt(path, "it has %d bytes, at most %d make sense", st.Size(), maxManifest)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, explain("reading", path, err)
	}
	m, err := parseManifest(path, b)
	if err != nil {
		return nil, err
	}
	model := &Model{dir, *m}
	for i := range m.Parts {
		r, err := model.openPart(&m.Parts[i])
		if err != nil {
			return nil, err
		}
		r.f.Close()
	}
	return model, nil
}

// Dir is the model's directory.
func (m *Model) Dir() string { return m.dir }

// path is a part's file.
func (m *Model) path(p *Part) string { return filepath.Join(m.dir, m.Generation, p.File) }

// Rows calls f for the rows of a table, a batch at a time: rows holds
// len(keys) rows behind one another, each the weights and, unless the model is
// weights only, the optimizer's state. Both are f's until it returns. Up to
// workers parts are read at once, so f is called by several goroutines. Parts
// that cover none of the slots in want are left out; nil wants all. Every byte
// is checked before f sees it.
func (m *Model) Rows(ctx context.Context, tableID uint32, workers int, want []Range, f func(keys []uint64, rows []float32) error) error {
	spec := m.Spec(tableID)
	if spec == nil {
		return fmt.Errorf("ckpt: %s has no table %d", m.dir, tableID)
	}
	floats := (m.recordBytes(spec) - 8) / 4
	return m.each(ctx, workers, func(p *Part) bool {
		return !p.Dense && p.Table == tableID && (want == nil || meets(p.Covers, want))
	}, func(ctx context.Context, r *partReader) error {
		return r.rows(ctx, floats, f)
	})
}

// DenseBlocks calls f for each block of a dense vector, in the order of the
// parts: values from element first on, and their optimizer state (empty in a
// model of weights only). Both are f's until it returns.
func (m *Model) DenseBlocks(ctx context.Context, id uint32, f func(first int64, values, state []float32) error) error {
	var spec *DenseSpec
	for i := range m.Dense {
		if m.Dense[i].ID == id {
			spec = &m.Dense[i]
		}
	}
	if spec == nil {
		return fmt.Errorf("ckpt: %s has no dense vector %d", m.dir, id)
	}
	return m.each(ctx, 1, func(p *Part) bool { return p.Dense && p.Table == id },
		func(ctx context.Context, r *partReader) error { return r.dense(ctx, spec.Elements, f) })
}

// each reads the parts that pick chooses, up to workers at once. The first
// error ends all.
func (m *Model) each(ctx context.Context, workers int, pick func(*Part) bool, read func(context.Context, *partReader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan *Part)
	var wg sync.WaitGroup
	for range max(1, min(workers, len(m.Parts))) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for p := range todo {
				if err := m.readPart(ctx, p, read); err != nil {
					cancel(err)
				}
			}
		}()
	}
	for i := range m.Parts {
		if p := &m.Parts[i]; ctx.Err() == nil && pick(p) {
			todo <- p
		}
	}
	close(todo)
	wg.Wait()
	return context.Cause(ctx)
}

func (m *Model) readPart(ctx context.Context, p *Part, read func(context.Context, *partReader) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r, err := m.openPart(p)
	if err != nil {
		return err
	}
	defer r.f.Close()
	return read(ctx, r)
}

// meets reports whether two lists of ranges have an element in common.
func meets(a, b []Range) bool {
	for _, x := range a {
		for _, y := range b {
			if x.First < y.Last && y.First < x.Last {
				return true
			}
		}
	}
	return false
}
