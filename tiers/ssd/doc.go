// Package ssd is tables' rows on disks: one log per table, appended to and read
// by slot, on all devices of a lane together.
//
// It owns where on a disk a row lies, what makes it durable, and how room comes
// back. It must not know what a row means, which rows are in memory, or who
// looks them up (package tiers); and not how a disk is driven (package blk).
//
// The life of one row: Append copies it into a write buffer of one of the
// store's devices and gives its slot; from then on Read finds it. A full buffer
// is written. Commit closes what is open; when all has been written and synced,
// a record in the manifest makes it count. Append of the key's next version and
// Free make it dead. When much of a segment is dead compaction appends what is
// live to another one, tells the owner, and the segment is free as soon as a
// manifest record says so.
package ssd
