package accessor

import (
	"errors"
	"maps"
	"slices"
)

// ErrBaseNeeded is a delta that cannot name all rows that are gone: its save is to
// be Failed, and a base to follow.
var ErrBaseNeeded = errors.New("lifecycle: too many served rows have gone since the last save for a delta to name them; save a base (mode 2)")

// maxGraves bounds the keys that are remembered.
const maxGraves = 1 << 22

// Graves are the keys of rows that have gone and that a served model still has.
// The next delta deletes them there. A key whose row is made again stays: the
// delta may not have the new row.
type Graves struct {
	limit  int // maxGraves but in tests
	keys   map[uint64]struct{}
	cut    map[uint64]struct{} // in the save that has begun
	isLost bool                // some keys were not remembered
	inCut  bool                // isLost at the cut
}

// Keys are all keys, sorted, those of a save that has begun included.
func (g *Graves) Keys() []uint64 {
	all := maps.Clone(g.keys)
	if all == nil {
		all = map[uint64]struct{}{}
	}
	maps.Copy(all, g.cut)
	return slices.Sorted(maps.Keys(all))
}

// all are Keys in any order, some twice.
func (g *Graves) all() []uint64 {
	out := make([]uint64, 0, len(g.keys)+len(g.cut))
	for k := range g.keys {
		out = append(out, k)
	}
	for k := range g.cut {
		out = append(out, k)
	}
	return out
}

// Len is how many there are.
func (g *Graves) Len() int { return len(g.keys) + len(g.cut) }

// CutLost says whether the save that has begun cannot name all that are gone.
func (g *Graves) CutLost() bool { return g.inCut }

// Cut are the keys, sorted, that the save that has begun must delete.
func (g *Graves) Cut() []uint64 { return slices.Sorted(maps.Keys(g.cut)) }

// Lost says whether keys were forgotten, so that only a base can follow.
func (g *Graves) Lost() bool { return g.isLost }

func (g *Graves) add(key uint64) {
	limit := g.limit
	if limit == 0 {
		limit = maxGraves
	}
	if g.keys == nil {
		g.keys = map[uint64]struct{}{}
	}
	if len(g.keys)+len(g.cut) >= limit {
		if _, isThere := g.keys[key]; !isThere {
			g.isLost = true
			clear(g.keys)
		}
		return
	}
	if !g.isLost {
		g.keys[key] = struct{}{}
	}
}

func (g *Graves) happen(k EventKind) {
	switch k {
	case CutDelta, CutBase:
		g.keys, g.cut = nil, g.keys
		g.isLost, g.inCut = false, g.isLost
	case Saved:
		g.cut, g.inCut = nil, false
	case Failed:
		cut := g.cut
		g.cut = nil
		g.isLost, g.inCut = g.isLost || g.inCut, false
		for key := range cut {
			g.add(key)
		}
		if g.isLost {
			clear(g.keys)
		}
	}
}
