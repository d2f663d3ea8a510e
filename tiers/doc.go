// Package tiers is a table over several kinds of memory: rows in memory, and
// all others on disks.
//
// It owns what is where and why: the bound of the memory, pins, reading ahead,
// which row leaves (by package policy), and consistent cuts through all of it.
// It must not know who asks, the network, or how a log lies on a disk (package
// ssd) or a row is updated (package accessor).
//
// Rows is the interface; Memory is a table all in memory, Tiered one over a
// lane's Disks. A row's bits never depend on the tier: the walk of package
// rowstest holds both to one reference.
//
// A Tiered has one index from keys to 32 bits: a frame of memory, or, with the
// top bit 0, a slot on disk. A frame has a ledger entry: key, pins, flags, and
// the slot where the disk has the same bits, if it has. A row is in a frame or
// in a slot that counts, never in both.
//
// The life of one lookup: Start finds all keys at once and pins the rows in
// memory. For each other key a frame is taken (free, of a new slab, or of a
// victim, which goes to the log first if the disk has an older copy or none),
// the index is turned to it, and the row is read; a second lookup of the key
// finds the frame and waits for the same read. If the log takes no rows just
// now, the rest of the lookup is a job that Poll goes on with; frames are
// promised to it, so that two jobs never wait for each other. Poll returns the
// lookup when its last row is there. A read that fails leaves the row where it
// was, and fails the lookups that wait for it, no others. Release unpins.
//
// The life of a row that is set: LoadRows finds some at once; those in memory are
// overwritten there, others go to an empty frame or, as they are, to the log.
//
// The life of an announcement: Announce puts the keys of a coming batch into the
// window of policy.Belady, the rows of the nearest batches are read into frames
// of rows used later, and Passed moves on.
//
// Memory: MaxBytes has frames, ledger, policy, index, marks, announced keys and
// the buffers of walks. Frames take what there is; as the index grows, slabs of
// frames are emptied and become index, until two batches' frames are left.
//
// Marks (changed since the last cut; in the cut; not yet swept) are bits of a
// row that go with it: flags in memory, one bit a slot on disk. They make cuts,
// deltas and sweeps independent of where rows are, and of compaction.
//
// Faults survived, each with a test: reads that fail; a disk that is behind, full
// or compacting at any moment; the end of the process (rows are those of the
// last Disks.Commit when the store is kept).
package tiers
