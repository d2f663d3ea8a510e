// Package dense keeps one owner's blocks of a dense parameter vector (ranges
// of a model's layers) with their optimizer state and a version.
//
// It owns the blocks' arithmetic and publication. It must not know which layer
// a block belongs to, who pushes, who pulls, or how blocks are spread over
// servers.
//
// The values lie in planes: memory for the values of all blocks behind one
// another. One plane is published, and nobody writes it; the state lies beside.
//
// The life of one update: Apply, block by block, lets the optimizer read the
// published weights and write the new ones into another plane, the next, in the
// same pass that changes the state. Publish then makes the next plane the
// published one. Nothing is copied, but for blocks that no Apply changed (their
// gradient was refused), which are carried over.
//
// The life of one read: who has a plane read by others (a device that writes
// pulled values to a worker, say) Holds the published one, and Releases it when
// they have done. A plane that is held is not written, so what leaves it is one
// version, whole. Hold sees to it that a plane is free for the next update,
// whatever is held: there are at most two more planes than versions held at one
// time, and an update never waits for a reader.
//
// Nothing here locks: all methods are for the one owner, and only the memory of
// a held plane is for others.
package dense
