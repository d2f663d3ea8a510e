package policy

import "math/bits"

// ghost remembers which keys left the small queue last, by fingerprints in sets
// of one cache line: a look touches one. Two keys in four billion are taken for
// each other; of a set that is full the oldest is forgotten too early.
type ghost struct {
	sets [][ghostWays]remembered
	now  uint32 // keys put so far
}

// remembered is one key; nothing has been put at 0.
type remembered struct{ print, at uint32 }

const (
	ghostWays  = 8
	ghostShare = 4 // keys a set, on average
	// ghostBytes is what a remembered key takes, with its frame's key.
	ghostBytes = 8 + ghostWays*8/ghostShare
)

// room makes room for n keys, and forgets those there are when it has to grow.
func (g *ghost) room(n int) {
	if want := (n + ghostShare - 1) / ghostShare; want > len(g.sets) {
		*g = ghost{sets: make([][ghostWays]remembered, want)}
	}
}

func (g *ghost) set(key uint64) (set *[ghostWays]remembered, print uint32) {
	key = (key ^ key>>32) * 0x9e3779b97f4a7c15
	key = (key ^ key>>29) * 0xbf58476d1ce4e5b9
	at, rest := bits.Mul64(key, uint64(len(g.sets)))
	return &g.sets[at], uint32(rest >> 32)
}

// put remembers a key.
func (g *ghost) put(key uint64) {
	set, print := g.set(key)
	g.now++
	if g.now == 0 { // after four billion: what was there seems new or is overwritten
		g.now = 1
	}
	oldest := 0
	for i := range set {
		if g.now-set[i].at > g.now-set[oldest].at {
			oldest = i
		}
	}
	set[oldest] = remembered{print, g.now}
}

// take says whether a key is among the last ones put, and forgets it.
func (g *ghost) take(key uint64, last int) bool {
	if len(g.sets) == 0 {
		return false
	}
	set, print := g.set(key)
	for i := range set {
		if r := &set[i]; r.print == print && r.at != 0 {
			age := g.now - r.at
			*r = remembered{}
			return age < uint32(last)
		}
	}
	return false
}

func (g *ghost) reset() {
	clear(g.sets)
	g.now = 0
}

func (g *ghost) bytes() int64 { return int64(len(g.sets)) * ghostWays * 8 }
