// Package hbm is the tier nearest to the batch: rows in the memory of a GPU, or
// of the host where there is none.
//
// It owns which rows are there, and what of them the tier below does not have
// yet. It must not know who asks, the network, or where the tier below has its
// rows; nor how a GPU is driven: that is behind Device.
//
// A Cache is tiers.Rows over tiers.Rows (Below: Memory or Tiered). Every row is
// below, whether it is also here or not, and nothing is pinned there for being
// here: the memory below may be smaller than a GPU's. A row that was updated here
// is dirty, and is put back below when its slot is needed, and before anything
// that looks at all rows: a cut, a digest, a walk, a sweep. So cuts, deltas and
// deletions are those of the tier below, and a row's bits never depend on the tier.
//
// Device is a GPU (package gpu), or the host twin (Host), whose arena is one piece of
// memory worked on by csrc/kernels. All its calls take a batch, are carried out in the order
// in which they were made, and return a Fence: on a GPU a stream is behind it.
//
// The life of one lookup: Start finds its keys; rows here are pinned. For the
// others slots are had first (free ones, or those of victims, which are put back
// in one batch when dirty), then they are looked up below, copied in, and let go
// there. Where the tier below is busy the lookup waits in a queue that Poll goes
// on with. Slots are promised to the lookups in the queue, so that two never wait
// for each other.
//
// The life of an announcement: it goes below, where rows are read from disks, and
// into the window of policy.Belady, by which the rows of the next batches are
// copied in before they are looked up, and victims chosen. As nobody waits for those rows, nothing
// is waited for: victims are copied out in one call, and put below when somebody calls next; until then they
// are rows like all others (leave.go).
//
// After an event of a lifecycle the rows here are stale: the next lookup or update
// of each brings it up to date, in a buffer of the host, and it may end. The copy
// below need not be: it will be brought to the same bits. With a journal all that was
// changed is put back before the event.
//
// Faults survived: reads that fail below, disks that are behind, as the tests of
// package tiers inject them. A device that fails, with a journal: what was changed on it is
// made again in the host's memory, which takes its place (rescue.go), and no call is an
// error. Without one, or where it had a gap: every call after that is an error, what a
// Gather gives is not a number, and Failed tells it from gradients that are none.
package hbm
