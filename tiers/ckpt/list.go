package ckpt

import (
	"context"
	"fmt"

	"psrt/tiers/ckpt/files"
)

// Entry is one generation, or what should be one.
type Entry struct {
	Number   uint64    // 0: a model of format 1
	Manifest *Manifest // nil if it cannot be read
	Err      error     // what is wrong with the manifest, or with its place in the history
}

// List is the generations at a location, oldest first; a model of format 1 is
// one. The error is for a place that has neither; damage is in the entries, but
// that of HEAD, which comes with them.
func List(ctx context.Context, location string) ([]Entry, error) {
	f, err := openFS(ctx, location)
	if err != nil {
		return nil, err
	}
	s, err := look(ctx, f)
	if err != nil {
		return nil, err
	}
	return list(ctx, f, s)
}

func list(ctx context.Context, f files.FS, s *shelf) ([]Entry, error) {
	if s.model {
		m, err := readManifest(ctx, f, ManifestName)
		return []Entry{{0, m, err}}, nil
	}
	if len(s.numbers) == 0 && s.head == nil && s.headErr == nil {
		return nil, fmt.Errorf("ckpt: %s: %w; give the --out or the --checkpoint directory of a psrt train", f.Path(""), ErrNoModel)
	}
	var entries []Entry
	for _, n := range s.numbers {
		m, err := s.manifest(ctx, n)
		if err == nil && m.Kind == KindDelta {
			_, err = s.parent(ctx, m)
		}
		entries = append(entries, Entry{n, m, err})
	}
	return entries, s.checkHead(ctx)
}
