// Package ssd is tables' rows on disks: one log per table, appended to and read
// by slot, on all devices of a lane together.
//
// It owns where on a disk a row lies, what makes it durable, and how room comes
// back. It must not know what a row means, which rows are in memory, or who
// looks them up (package tiers); and not how a disk is driven (package blk).
//
// # The life of a row
//
// Append copies it into a write buffer of one of the store's devices and gives
// its slot; from then on Read finds it. A full buffer is written. Commit closes
// what is open; when all has been written and synced, a record in the manifest
// makes it count. Append of the key's next version and Free make it dead. When
// much of a segment is dead compaction appends what is live to another one,
// tells the owner, and the segment is free as soon as a manifest record says so.
// Nothing here waits for a disk but Open, Log and Close.
//
// # What is promised
//
// Recovery is at a commit point: all that was called before one Commit and
// nothing that was called after it, in all logs of the store; the last
// acknowledged one or a later one. A room is written anew only when a durable
// record says that nothing in it counts, and that is said only of rows that a
// durable commit has superseded or whose copies are durable. Of every row that
// is read the sum over key, place and payload is checked. A manifest that cannot
// be read in either copy, or a summary that has changed, refuses the store; a
// row that has changed is refused alone.
//
// # Files, version 1
//
// All numbers are little-endian, all sums CRC-32C. Each device's directory has:
//
//	store                 which device of which store this is: type identity, twice
//	manifest-NNNNNNNN-a   commit points: records (type record) one behind the other,
//	                      each from a multiple of 4096 on, the first one full, the
//	                      serials without gaps; NNNNNNNN grows with every new file.
//	                      a is on the first device, b, the same bytes, on the
//	                      second one (or the first, if that is the only one)
//	data-FFFFFFFF-CCCCCC  C segments, beginning with number F (hexadecimal)
//
// A segment belongs to one log. It begins with layout.pages summary pages of
// layout.page bytes (type pageInfo), one behind the other; from the next multiple
// of 4096 on come as many rooms of layout.data bytes, the records of page p in
// room p. A record is its payload and a sum (4 bytes) over 24 bytes and the
// payload; the 24 are key u64, generation u64, segment u32 and number in the
// segment u32. Record i of a room is at i x (payload + 4), or, where layout.perBlock
// is not 0, at i / perBlock x block + i % perBlock x (payload + 4). A slot is
// (number of the segment in its log) x slots x pages + page x slots + i.
//
// A page counts if the manifest lists its segment with that generation and more
// pages, and not among the bad ranges. Pages are replayed by time: when they were
// closed where the owner wrote them, when their first entry came where compaction did.
// A key's bit in a page says that the entry is a deletion. In a page of
// compaction's a deletion has two entries: the key, and the time of the page in
// which it was first; it is of no effect if the key's record is as young or
// younger.
package ssd
