package ckpt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"psrt/tiers/ckpt/files"
)

// HistoryOptions are a writer's.
type HistoryOptions struct {
	// Keep is how many chains stay, each a base with its deltas: those with the
	// newest generations. 0 keeps all.
	Keep int
	// Run is the id of the run that writes; "": a new one. Resume and Merge continue the
	// run of the generation that they are given. Only chains of this run are counted and removed.
	Run string
	// AllRuns counts and removes the chains of all runs.
	AllRuns bool
}

// History is a history being written. There is one at a time: it holds the
// lock from OpenHistory to Close. Its methods may be called by several
// goroutines.
type History struct {
	fs       files.FS
	location string
	keep     int
	allRuns  bool

	mu     sync.Mutex
	run    string     // of the generations that come next
	chain  []link     // from the parent's base to the parent
	turn   int        // the last one in chain that toList picked in turn
	lock   files.Lock // nil once it is closed
	last   uint64     // the highest number that ever was
	parent *Manifest  // of the next delta
	broken error      // why there is no parent although there are generations
	next   *Next      // under way
	known  map[uint64]*Manifest
	after  error
}

// LockedError says which process writes there already.
type LockedError = files.LockedError

// OpenHistory takes the lock of a history, which is made if there is none, and
// removes what a crash left behind. The next delta follows the newest
// generation with optimizer state, or where none has any, the newest. End it by
// Close.
func OpenHistory(ctx context.Context, location string, o HistoryOptions) (*History, error) {
	f, err := openFS(ctx, location)
	if err != nil {
		return nil, err
	}
	return openHistory(ctx, f, location, o)
}

func openHistory(ctx context.Context, f files.FS, location string, o HistoryOptions) (*History, error) {
	lock, err := f.Lock(ctx)
	if err != nil {
		var held *LockedError
		if errors.As(err, &held) {
			return nil, fmt.Errorf("ckpt: %w", err)
		}
		return nil, explain("locking", f.Path(""), err)
	}
	h := &History{fs: f, location: location, keep: o.Keep, allRuns: o.AllRuns, run: o.Run, lock: lock, known: map[uint64]*Manifest{}}
	if h.run == "" {
		h.run = NewRun()
	}
	if err := h.begin(ctx); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return h, nil
}

func (h *History) begin(ctx context.Context) error {
	s, err := look(ctx, h.fs)
	if err != nil {
		return err
	}
	if s.model {
		return holdsModel(h.fs)
	}
	if s.export {
		return &PlaceError{fmt.Errorf("ckpt: %s holds an export of psrt export, which psrt eval and predict would read in place of the checkpoints; choose another directory for them", h.fs.Path(""))}
	}
	h.last = s.last()
	for _, d := range s.dirs {
		n, _, _ := splitDir(d)
		h.last = max(h.last, n)
	}
	if s.head != nil {
		h.last = max(h.last, s.head.Number)
	}
	h.clean(ctx, s)
	n := s.last()
	if n > 0 {
		if n, err = s.trainable(ctx); errors.Is(err, ErrNoModel) {
			n, err = s.last(), nil // a history for serving
		}
	}
	if err == nil {
		err = s.checkHead(ctx)
	}
	if err == nil && n > 0 {
		h.parent, h.chain, err = h.sound(ctx, s, n)
	}
	if h.broken = err; ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// sound is a generation's manifest and its chain, if all that it needs is there.
func (h *History) sound(ctx context.Context, s *shelf, number uint64) (*Manifest, []link, error) {
	chain, err := s.descent(ctx, number)
	if err != nil {
		return nil, nil, err
	}
	m := modelOf(h.fs, chain)
	if err := m.each(ctx, openAtOnce, everyPart, func(context.Context, *partReader) error { return nil }); err != nil {
		return nil, nil, err
	}
	return chain[len(chain)-1], linksOf(chain), nil
}

// clean removes what no manifest names. It leaves all as it is where a manifest
// cannot be read or something that was committed is missing: somebody may yet
// bring the piece back. What cannot be removed stays for the next time; it is
// not in the way.
func (h *History) clean(ctx context.Context, s *shelf) {
	used := map[string]bool{}
	for _, n := range s.numbers {
		m, err := s.manifest(ctx, n)
		if err == nil && m.Kind == KindDelta {
			_, err = s.parent(ctx, m)
		}
		if err != nil {
			return
		}
		h.known[n] = m.outline()
		used[m.Generation] = true
	}
	if s.checkHead(ctx) != nil {
		return
	}
	for _, d := range s.dirs {
		if !used[d] && h.partsOnly(ctx, d) {
			_ = h.fs.Remove(ctx, d)
		}
	}
	for _, t := range s.temps {
		_ = h.fs.Remove(ctx, t)
	}
}

// outline is what retiring needs to know of a generation: a history of a day has
// thousands, and a manifest names every part.
func (m *Manifest) outline() *Manifest {
	return &Manifest{Format: m.Format, Generation: m.Generation, Lineage: m.Lineage}
}

// partsOnly says whether a directory holds nothing but what writers make.
func (h *History) partsOnly(ctx context.Context, dir string) bool {
	list, err := h.fs.List(ctx, dir)
	return err == nil && !slices.ContainsFunc(list, func(e files.Entry) bool { return !strings.HasSuffix(e.Name, partSuffix) })
}

// Head is the generation that the next delta follows, nil if there is none.
func (h *History) Head() *Manifest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.parent
}

// Resume makes a generation the one that the next delta follows, and continues its run.
func (h *History) Resume(ctx context.Context, number uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, err := look(ctx, h.fs)
	if err != nil {
		return err
	}
	m, chain, err := h.sound(ctx, s, number)
	if err == nil {
		h.parent, h.chain, h.broken, h.run = m, chain, nil, m.Run
	}
	return err
}

// StartRun makes the bases that come next, and their deltas, belong to a run.
func (h *History) StartRun(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.run = id
}

// Trouble is what went wrong after the last commit without harm to it: old
// generations that could not be removed, a HEAD that could not be written. The
// next commit tries again.
func (h *History) Trouble() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.after
}

// Close gives the lock back. A generation under way is aborted.
func (h *History) Close() error {
	h.mu.Lock()
	n := h.next
	h.mu.Unlock()
	var err error
	if n != nil {
		err = n.Abort()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lock == nil {
		return err
	}
	lock := h.lock
	h.lock = nil
	return errors.Join(err, lock.Close())
}

// retire removes the chains of this run that are too many, newest generation first, so that
// at no moment one is there whose parent is not; and a chain's parts only when
// its manifests are durably gone. h.mu is held.
func (h *History) retire(ctx context.Context) error {
	if h.keep < 1 {
		return nil
	}
	s, err := look(ctx, h.fs)
	if err != nil {
		return err
	}
	s.known = h.known
	newestOf := map[uint64]uint64{} // base -> newest generation of its chain
	baseOf := map[uint64]uint64{}
	for _, n := range s.numbers {
		m, err := s.manifest(ctx, n)
		if err != nil {
			return err // what it needs is not known
		}
		base := n
		if m.Parent != nil {
			if base = baseOf[m.Parent.Number]; base == 0 {
				return corrupt(h.fs.Path(manifestFile(n)), "generation %d, its parent, is missing; nothing is retired before psrt checkpoint verify is content", m.Parent.Number)
			}
		}
		baseOf[n], newestOf[base] = base, n
	}
	var bases []uint64
	kept := map[uint64]bool{}
	for b := range newestOf {
		if h.allRuns || h.known[b].Run == h.run {
			bases = append(bases, b)
		} else {
			kept[b] = true
		}
	}
	slices.SortFunc(bases, func(a, b uint64) int { return int(int64(newestOf[b]) - int64(newestOf[a])) })
	if len(bases) <= h.keep {
		return nil
	}
	for _, b := range bases[:h.keep] {
		kept[b] = true
	}
	if h.parent != nil {
		kept[baseOf[h.parent.Number]] = true
	}
	return h.drop(ctx, s, func(n uint64) bool { return !kept[baseOf[n]] })
}

func (h *History) drop(ctx context.Context, s *shelf, doomed func(uint64) bool) error {
	var dirs []string
	for _, n := range slices.Backward(s.numbers) {
		if !doomed(n) {
			continue
		}
		name := manifestFile(n)
		if err := h.fs.Remove(ctx, name); err != nil {
			return explain("removing", h.fs.Path(name), err)
		}
		if err := h.fs.Sync(ctx, ""); err != nil {
			return explain("syncing", h.fs.Path(""), err)
		}
		dirs = append(dirs, h.known[n].Generation)
		delete(h.known, n)
	}
	for _, d := range dirs {
		if err := h.fs.Remove(ctx, d); err != nil {
			return explain("removing", h.fs.Path(d), err)
		}
	}
	return nil
}
