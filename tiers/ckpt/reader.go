package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"psrt/tiers/ckpt/files"
)

// Model is an opened model: a directory of format 1, or a generation of a
// history with all that it descends from. It may be read by several goroutines,
// and needs no closing: files are opened while they are read.
type Model struct {
	fs  files.FS
	dir string
	// Manifest is the newest one: of a delta, Meta, Position, Tables, Dense are
	// the whole model's, Parts are its own.
	Manifest
	chain []*Manifest // from the base to Manifest
	// keyBudget is the memory for ids while a chain is read.
	keyBudget int64
	opening   time.Duration // what Open took
}

// Open opens what is at a location: a directory of format 1, or the newest
// generation of a history. It reads and checks the manifests, and that the
// parts are there with the size and the header they should have. Their contents
// are checked as they are read.
func Open(location string) (*Model, error) {
	return OpenAt(context.Background(), location, 0)
}

// OpenAt opens a generation of a history, 0 the newest. One that is named opens also where the
// newest is damaged.
func OpenAt(ctx context.Context, location string, number uint64) (*Model, error) {
	m, err := open(ctx, location, func(s *shelf) (uint64, error) {
		if number > 0 {
			s.head, s.headErr = nil, nil
			return number, nil
		}
		return s.last(), nil
	})
	if err != nil && number == 0 {
		err = advise(ctx, location, err)
	}
	return m, err
}

// OpenTrainable opens the newest generation of a history that has optimizer
// state: what a job goes on from.
func OpenTrainable(ctx context.Context, location string) (*Model, error) {
	m, err := open(ctx, location, func(s *shelf) (uint64, error) { return s.trainable(ctx) })
	if err != nil {
		err = advise(ctx, location, err)
	}
	return m, err
}

// IsHistory says whether there is a history at a location, rather than a model
// of format 1 or nothing.
func IsHistory(ctx context.Context, location string) (bool, error) {
	f, err := openFS(ctx, location)
	if err != nil {
		return false, err
	}
	s, err := look(ctx, f)
	return err == nil && !s.model && len(s.numbers) > 0, err
}

func open(ctx context.Context, location string, pick func(*shelf) (uint64, error)) (*Model, error) {
	f, err := openFS(ctx, location)
	if err != nil {
		return nil, err
	}
	return openIn(ctx, f, pick)
}

func openIn(ctx context.Context, f files.FS, pick func(*shelf) (uint64, error)) (*Model, error) {
	begun := time.Now()
	s, err := look(ctx, f)
	if err != nil {
		return nil, err
	}
	var chain []*Manifest
	switch {
	case s.model:
		m, err := readManifest(ctx, f, ManifestName)
		if err != nil {
			return nil, err
		}
		chain = []*Manifest{m}
	case len(s.numbers) == 0:
		if err := s.checkHead(ctx); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("ckpt: %s: %w (it has no %s and no %s*); give the --out directory of a finished psrt train, or its --checkpoint directory",
			f.Path(""), ErrNoModel, ManifestName, manifestPrefix)
	default:
		number, err := pick(s)
		if err != nil {
			return nil, err
		}
		if chain, err = s.chain(ctx, number); err != nil {
			return nil, err
		}
	}
	m := modelOf(f, chain)
	if err := m.each(ctx, openAtOnce, everyPart, func(context.Context, *partReader) error { return nil }); err != nil {
		return nil, err
	}
	m.opening = time.Since(begun)
	return m, nil
}

func modelOf(f files.FS, chain []*Manifest) *Model {
	return &Model{fs: f, dir: f.Path(""), Manifest: *chain[len(chain)-1], chain: chain, keyBudget: keyBudget}
}

func everyPart(*Manifest, *Part) bool { return true }

// openAtOnce parts are looked at at once: a store answers slowly, but many.
const openAtOnce = 8

// readManifest reads and checks one, in itself.
func readManifest(ctx context.Context, f files.FS, name string) (*Manifest, error) {
	b, err := f.Read(ctx, name, maxManifest)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, corrupt(f.Path(name), "the file is missing")
		}
		return nil, explain("reading", f.Path(name), err)
	}
	return parseManifest(f.Path(name), b)
}

// Dir is the model's directory, or what stands for it in a store.
func (m *Model) Dir() string { return m.dir }

// Chain is the manifests from the base to the model's own. They are not to be
// changed.
func (m *Model) Chain() []*Manifest { return m.chain }

// Marked reports whether every part has an id, so that Open has told them all from
// parts of other models. Parts of an earlier psrt are told apart when they have been
// read to their end: who cannot take back what it has read calls Verify first.
func (m *Model) Marked() bool {
	return !slices.ContainsFunc(m.chain, func(of *Manifest) bool {
		return slices.ContainsFunc(of.Parts, func(p Part) bool { return p.ID == "" })
	})
}

// DenseBlocks calls f for each block of a dense vector, in the order of the
// parts: values from element first on, and their optimizer state (empty in a
// model of weights only). Both are f's until it returns.
func (m *Model) DenseBlocks(ctx context.Context, id uint32, f func(first int64, values, state []float32) error) error {
	spec := m.denseSpec(id)
	if spec == nil {
		return fmt.Errorf("ckpt: %s has no dense vector %d", m.dir, id)
	}
	return m.each(ctx, 1, func(of *Manifest, p *Part) bool { return of.Number == m.Number && p.Dense && p.Table == id },
		func(ctx context.Context, r *partReader) error { return r.dense(ctx, spec.Elements, f) })
}

func (m *Manifest) denseSpec(id uint32) *DenseSpec {
	for i := range m.Dense {
		if m.Dense[i].ID == id {
			return &m.Dense[i]
		}
	}
	return nil
}

// each reads the parts that pick chooses, up to workers at once. The first
// error ends all.
func (m *Model) each(ctx context.Context, workers int, pick func(*Manifest, *Part) bool, read func(context.Context, *partReader) error) error {
	var todo []func(context.Context) error
	for _, of := range m.chain {
		for i := range of.Parts {
			if p := &of.Parts[i]; pick(of, p) {
				todo = append(todo, func(ctx context.Context) error { return m.readPart(ctx, of, p, read) })
			}
		}
	}
	return inParallel(ctx, workers, todo)
}

// inParallel runs tasks, up to workers at once and in their order. The first
// error cancels the others.
func inParallel(ctx context.Context, workers int, tasks []func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan func(context.Context) error)
	var wg sync.WaitGroup
	for range max(1, min(workers, len(tasks))) {
		wg.Go(func() {
			for task := range todo {
				if ctx.Err() != nil {
					continue
				}
				if err := task(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, task := range tasks {
		if ctx.Err() != nil {
			break
		}
		todo <- task
	}
	close(todo)
	wg.Wait()
	return context.Cause(ctx)
}

func (m *Model) readPart(ctx context.Context, of *Manifest, p *Part, read func(context.Context, *partReader) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r, err := m.openPart(ctx, of, p)
	if err != nil {
		return err
	}
	defer r.close()
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
