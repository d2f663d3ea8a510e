package ckpt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"psrt/tiers/ckpt/files"
)

// shelf is what lies in a history's root.
type shelf struct {
	fs      files.FS
	model   bool     // a model of format 1 lies there
	export  bool     // an export does
	numbers []uint64 // of manifests, in order
	dirs    []string // of parts, in order
	temps   []string // of manifests that were being written
	head    *Ref     // what HEAD names; nil if there is none
	headErr error    // of a HEAD that cannot be read
	known   map[uint64]*Manifest
}

// look lists the root. It reads no manifest.
func look(ctx context.Context, f files.FS) (*shelf, error) {
	list, err := f.List(ctx, "")
	if err != nil {
		return nil, explain("listing", f.Path(""), err)
	}
	s := &shelf{fs: f, known: map[uint64]*Manifest{}}
	for _, e := range list {
		n, manifest := manifestNumber(e.Name)
		_, _, parts := splitDir(e.Name)
		switch {
		case e.Name == ManifestName:
			s.model = true
		case e.Name == exportName:
			s.export = true
		case manifest && !e.Dir:
			s.numbers = append(s.numbers, n)
		case parts && e.Dir:
			s.dirs = append(s.dirs, e.Name)
		case strings.HasPrefix(e.Name, files.TempPrefix):
			s.temps = append(s.temps, e.Name)
		case e.Name == headName:
			s.head, s.headErr = readHead(ctx, f)
		}
	}
	slices.Sort(s.numbers)
	slices.Sort(s.dirs)
	return s, nil
}

// HEAD names the newest generation, so that its loss is noticed. It is written
// after the manifest: it may lag behind one, and never names one that was not
// committed.
//
//	{"number":7,"sha256":"…"} and, on a second line, the SHA-256 of the first

func writeHead(ctx context.Context, f files.FS, r Ref) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("ckpt: %s: %w", headName, err)
	}
	sum := sha256.Sum256(line)
	if err := f.Put(ctx, headName, fmt.Appendf(line, "\n%x\n", sum), false); err != nil {
		return explain("writing", f.Path(headName), err)
	}
	return nil
}

func readHead(ctx context.Context, f files.FS) (*Ref, error) {
	b, err := f.Read(ctx, headName, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explain("reading", f.Path(headName), err)
	}
	line, sum, _ := strings.Cut(string(b), "\n")
	var r Ref
	if want := sha256.Sum256([]byte(line)); sum != hex.EncodeToString(want[:])+"\n" || json.Unmarshal([]byte(line), &r) != nil || !r.valid() {
		return nil, &CorruptError{Path: f.Path(headName), Why: "it is not what psrt wrote", Remedy: "psrt checkpoint verify checks the generations; remove this file, and the newest of them is used"}
	}
	return &r, nil
}

// last is the newest number, 0 if there is none.
func (s *shelf) last() uint64 {
	if len(s.numbers) == 0 {
		return 0
	}
	return s.numbers[len(s.numbers)-1]
}

// manifest reads a generation's manifest and checks that it is that one's.
func (s *shelf) manifest(ctx context.Context, number uint64) (*Manifest, error) {
	if m := s.known[number]; m != nil {
		return m, nil
	}
	name := manifestFile(number)
	m, err := readManifest(ctx, s.fs, name)
	if err != nil {
		return nil, err
	}
	if !m.ofHistory() || m.Number != number {
		return nil, corrupt(s.fs.Path(name), "it is the manifest of generation %d: generations were repeated or exchanged", m.Number)
	}
	s.known[number] = m
	return m, nil
}

// maxChain bounds a chain: at a delta a minute it is a week, and long before
// that a base is the better thing to read.
const maxChain = 10_000

// chain reads the manifests from a generation's base to it.
func (s *shelf) chain(ctx context.Context, number uint64) ([]*Manifest, error) {
	if err := s.checkHead(ctx); err != nil {
		return nil, err
	}
	return s.descent(ctx, number)
}

// descent is chain without a look at HEAD.
func (s *shelf) descent(ctx context.Context, number uint64) ([]*Manifest, error) {
	if !slices.Contains(s.numbers, number) {
		return nil, fmt.Errorf("ckpt: %s: %w of generation %d; it has %s", s.fs.Path(""), ErrNoModel, number, spell(s.numbers))
	}
	m, err := s.manifest(ctx, number)
	if err != nil {
		return nil, err
	}
	chain := []*Manifest{m}
	for m.Kind == KindDelta {
		if len(chain) == maxChain {
			return nil, corrupt(s.fs.Path(manifestFile(number)), "more than %d generations lie between it and its base; psrt checkpoint merge makes one of them", maxChain)
		}
		parent, err := s.parent(ctx, m)
		if err != nil {
			return nil, err
		}
		chain = append(chain, parent)
		m = parent
	}
	slices.Reverse(chain)
	return chain, nil
}

// parent is what a delta is to be laid over.
func (s *shelf) parent(ctx context.Context, m *Manifest) (*Manifest, error) {
	name := s.fs.Path(manifestFile(m.Parent.Number))
	if !slices.Contains(s.numbers, m.Parent.Number) {
		return nil, corrupt(name, "generation %d, which generation %d is a change of, is missing", m.Parent.Number, m.Number)
	}
	parent, err := s.manifest(ctx, m.Parent.Number)
	if err != nil {
		return nil, err
	}
	if parent.SHA256 != m.Parent.SHA256 {
		return nil, corrupt(name, "its SHA-256 is %s, but generation %d is a change of generation %d with %s: generations were exchanged", parent.SHA256, m.Number, m.Parent.Number, m.Parent.SHA256)
	}
	if err := m.follows(parent); err != nil {
		return nil, corrupt(s.fs.Path(manifestFile(m.Number)), "it cannot follow generation %d: %v", m.Parent.Number, err)
	}
	return parent, nil
}

// checkHead refuses a history whose newest generation is gone or another.
func (s *shelf) checkHead(ctx context.Context) error {
	if s.headErr != nil || s.head == nil {
		return s.headErr
	}
	name := s.fs.Path(manifestFile(s.head.Number))
	if s.head.Number > s.last() {
		return corrupt(name, "generation %d, the newest that was committed, is missing; to go on from an older one remove %s", s.head.Number, s.fs.Path(headName))
	}
	if !slices.Contains(s.numbers, s.head.Number) {
		return nil // a newer one has been committed, and this one retired
	}
	m, err := s.manifest(ctx, s.head.Number)
	if err != nil {
		return err
	}
	if m.SHA256 != s.head.SHA256 {
		return corrupt(name, "its SHA-256 is %s, committed was %s: generations were exchanged", m.SHA256, s.head.SHA256)
	}
	return nil
}

// trainable is the newest generation with optimizer state.
func (s *shelf) trainable(ctx context.Context) (uint64, error) {
	for _, n := range slices.Backward(s.numbers) {
		m, err := s.manifest(ctx, n)
		if err != nil {
			return 0, err
		}
		if !m.WeightsOnly {
			return n, nil
		}
	}
	return 0, fmt.Errorf("ckpt: %s: %w with optimizer state: all generations are for serving", s.fs.Path(""), ErrNoModel)
}

// spell lists numbers for people.
func spell(numbers []uint64) string {
	switch n := len(numbers); {
	case n == 0:
		return "none"
	case n > 8:
		return fmt.Sprintf("%d of them, %d to %d", n, numbers[0], numbers[n-1])
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ", "), "[]")
}
