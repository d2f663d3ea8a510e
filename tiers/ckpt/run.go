package ckpt

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"psrt/tiers/ckpt/files"
)

// runIDBytes is the length of a run's id before it is hex.
const runIDBytes = 8

// NewRun returns an id for a run: one training from its beginning, with all resumptions.
// Each generation names its run, and retiring counts one run's chains.
func NewRun() string {
	var b [runIDBytes]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// validRun accepts "", which stands for all generations that were written before runs had ids.
func validRun(id string) bool {
	b, err := hex.DecodeString(id)
	return err == nil && (len(b) == 0 || len(b) == runIDBytes)
}

// Used reports the number of the newest generation at a location, 0 if it has none. A HEAD
// that cannot be read, or names a generation that is gone, counts as a generation.
func Used(ctx context.Context, location string) (newest uint64, err error) {
	f, err := openFS(ctx, location)
	if err != nil {
		return 0, err
	}
	s, err := look(ctx, f)
	switch {
	case err != nil:
		return 0, err
	case s.model:
		return 0, holdsModel(f)
	case s.head != nil:
		return max(s.last(), s.head.Number), nil
	}
	return s.last(), s.headErr
}

func holdsModel(f files.FS) error {
	return &PlaceError{fmt.Errorf("ckpt: %s holds a model of psrt train --out; choose another directory for checkpoints", f.Path(""))}
}

// listedAtOnce bounds the listings by which one delta's chain is checked: those of the base, the
// parent and others in turn. The chain of a checkpoint has no more generations.
const listedAtOnce = 16

// Intact reports whether the files are there, with their sizes, that the next delta builds on. The
// error is ErrNoBase, with what is missing. Contents are not read.
func (h *History) Intact(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.intact(ctx)
}

// intact is Intact. h.mu is held.
func (h *History) intact(ctx context.Context) error {
	if len(h.chain) == 0 {
		return nil
	}
	s, err := look(ctx, h.fs)
	if err != nil {
		return err
	}
	for _, g := range h.chain {
		name := h.fs.Path(manifestFile(g.number))
		if slices.Contains(s.numbers, g.number) {
			if len(g.parts) == 0 || slices.Contains(s.dirs, g.dir) {
				continue
			}
			name = h.fs.Path(g.dir)
		}
		return fmt.Errorf("ckpt: generation %d of %s is not whole any more, %s is missing: %w", g.number, h.fs.Path(""), name, ErrNoBase)
	}
	var tasks []func(context.Context) error
	for _, g := range h.toList() {
		tasks = append(tasks, func(ctx context.Context) error { return h.wholeParts(ctx, g) })
	}
	return inParallel(ctx, openAtOnce, tasks)
}

// toList picks the generations whose parts are listed this time.
func (h *History) toList() []link {
	n := len(h.chain)
	if n <= listedAtOnce {
		return h.chain
	}
	picked := []link{h.chain[0], h.chain[n-1]}
	for range listedAtOnce - 2 {
		h.turn = h.turn%(n-2) + 1
		picked = append(picked, h.chain[h.turn])
	}
	return picked
}

func (h *History) wholeParts(ctx context.Context, g link) error {
	if len(g.parts) == 0 {
		return nil
	}
	list, err := h.fs.List(ctx, g.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain("listing", h.fs.Path(g.dir), err)
	}
	there := map[string]int64{}
	for _, e := range list {
		there[e.Name] = e.Bytes
	}
	for name, bytes := range g.parts {
		full := h.fs.Path(path.Join(g.dir, name))
		if got, ok := there[name]; !ok {
			return fmt.Errorf("ckpt: generation %d of %s is not whole any more, %s is missing: %w", g.number, h.fs.Path(""), full, ErrNoBase)
		} else if got != bytes {
			return fmt.Errorf("ckpt: generation %d of %s is not whole any more, %s has %d bytes and had %d: %w", g.number, h.fs.Path(""), full, got, bytes, ErrNoBase)
		}
	}
	return nil
}

// link is what intact knows of a generation in the parent's chain.
type link struct {
	number uint64
	dir    string
	parts  map[string]int64 // bytes by file name
}

func linkOf(m *Manifest) link {
	g := link{m.Number, m.Generation, map[string]int64{}}
	for _, p := range m.Parts {
		g.parts[p.File] = p.Bytes
	}
	return g
}

func linksOf(chain []*Manifest) (links []link) {
	for _, m := range chain {
		links = append(links, linkOf(m))
	}
	return links
}
