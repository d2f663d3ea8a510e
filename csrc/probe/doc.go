// Package probe finds keys: a hash index from uint64 keys to uint32 row ids,
// probed for a whole batch per call with grouped prefetch, and Dedup, which
// numbers the distinct keys of a batch.
//
// It owns the bucket layout, the hash and the growth of the index. It must not
// know what a row is, and it allocates no index memory: segments come from the
// caller, who decides about NUMA nodes, huge pages and budgets.
//
// The index is an array of 64-byte buckets, one cache line each:
//
//	 0  key[5]   8 bytes each
//	40  row[5]   4 bytes each
//	60  meta     bits 0..4: slot i is taken; bit 5: a key went past this bucket
//
// Whether a slot is taken is in meta and nowhere else, so every uint64 is a
// legal key. A key's home is the high part of hash x buckets: homes are in hash
// order, the table's size need not be a power of two, and a key that finds its
// home full goes to the next bucket with room (bit 5 marks those it passed).
//
// Growth: when 80 % of the slots are taken, a table larger by an eighth is
// opened beside the old one, and every insertion moves four old homes over, in
// order. Because homes are in hash order this is one sequential sweep over both
// tables: a lookup compares the home with the sweep's position to know where to
// look, and segments behind the sweep are given to the new table. So there is
// no pause, and never more than a few segments above what the keys need: 16 to
// 17 bytes a key.
//
// Deleting a key frees its slot, but leaves the marks of keys that went past.
// When a fifth of the slots has been deleted since the last sweep, a table of
// the size that the keys need is opened and swept into, as for growth.
//
// The life of one call: Index.Find or Index.Upsert checks lengths, crosses into
// C once, which prefetches the home buckets of 32 keys ahead of probing them.
// Upsert stops early when it needs a segment or a row; the wrapper fetches a
// segment and goes on. The pure-Go twin walks the same memory and gives the
// same answers, without prefetch.
package probe
