package tiers

import "psrt/csrc/probe"

// Reserve opens the empty index at the size that so many rows need, where that
// and their marks leave the memory that is kept free: it does not grow while they
// come, which moves each key several times.
func (t *Tiered) Reserve(rows int) {
	if !t.closed && indexBytes(rows)+int64(rows) <= t.space.left()-t.space.reserve() {
		t.index.Reserve(rows)
	}
}

// indexBytes is what the index of so many rows takes.
func indexBytes(rows int) int64 {
	return int64(rows)/probe.KeysPerHome*probe.BucketBytes + probe.BucketBytes
}

// expect is Reserve for a log with so many records, overwritten ones among them.
// Compaction leaves a third of them at most. Where memory is scarce the index
// begins with what is there without them, or as small as ever.
func (t *Tiered) expect(records int) {
	left := t.space.left()
	if indexBytes(records) > left/4 {
		records = records / 3 * 2
	}
	if indexBytes(records) <= left/2 {
		t.Reserve(records)
	}
}
