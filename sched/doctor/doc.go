// Package doctor says what a machine offers to psrt, what would make it faster, and
// what is wrong with the way to others: one finding each, with its figure and the
// command that mends it.
//
// It owns which facts are looked at and what they mean. It must not know how a
// finding is shown. What files tell is read below a root, so that a tree of files is
// a machine; only what a try alone can tell (rdma/feature, io_uring, a port, a
// directory, a peer) is tried. Nothing is changed.
//
// # The life of an examination
//
//	Examine   all groups of checks at once, none longer than Within
//	machine   RDMA ports and GIDs, memory, CPUs, cards, disks, kernel, libraries
//	asked     what the caller names: directories, ports to listen at, an interface,
//	          a GID; such findings are Asked, and not OK means that a job will fail
//	peers     each at once: its name, the route, a connection, a word of it, the
//	          largest packet that gets there, and what its own doctor finds
//
// A group that does not come back in time is a finding of its own.
package doctor
