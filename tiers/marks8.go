package tiers

import (
	"encoding/binary"
	"math/bits"
)

// Eight places' flags are dealt with at once: a lane waits for these.
const (
	eachPlace = 0x0101010101010101

	atChanged = 1 // log2 of the marks
	atCarried = 2
	atCut     = 3
)

var _ = [1]struct{}{}[flagLive-1|markChanged-1<<atChanged|markCarried-1<<atCarried|markCut-1<<atCut]

// beginCut marks the rows of a cut, and counts them.
func (c *chunk) beginCut(delta bool) (rows int) {
	all := uint64(eachPlace)
	if delta {
		all = 0
	}
	b := c.flags
	for ; len(b) >= 8; b = b[8:] {
		f, chosen := begun(binary.LittleEndian.Uint64(b), all)
		binary.LittleEndian.PutUint64(b, f)
		rows += bits.OnesCount64(chosen)
	}
	for i := range b {
		f, chosen := begun(uint64(b[i]), all)
		b[i] = uint8(f)
		rows += bits.OnesCount64(chosen)
	}
	return rows
}

// begun is flags when a cut has begun that has all live rows, or those changed.
func begun(f, all uint64) (flags, chosen uint64) {
	live := f & eachPlace
	changed := live & (f >> atChanged)
	chosen = changed | live&all
	return (f|chosen<<atCut)&^(changed<<atChanged) | changed<<atCarried, chosen
}

// endCut takes the marks of a cut away. What was not committed has changed.
func (c *chunk) endCut(committed bool) {
	again := uint64(eachPlace)
	if committed {
		again = 0
	}
	b := c.flags
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, ended(binary.LittleEndian.Uint64(b), again))
	}
	for i := range b {
		b[i] = uint8(ended(uint64(b[i]), again))
	}
}

func ended(f, again uint64) uint64 {
	f |= (f >> atCarried & again) << atChanged
	return f &^ (eachPlace<<atCarried | eachPlace<<atCut)
}
