// Package coll is the one interface of collectives: all-reduce, reduce-scatter,
// all-gather, all-to-all, broadcast and barrier among the ranks of a group.
//
// It owns the vocabulary: what a call is, what its buffers must be, who is to
// blame when one fails. The implementations are package ring, over the transports
// of package rdma, and what binds a vendor's library; one conformance suite,
// colltest, holds them to the same results, and its Naive is the definition of
// them. It must not know gradients or training.
//
// The life of one call:
//
//  1. Every rank has registered the memory that its buffers lie in.
//  2. All ranks start the same calls in the same order: Do waits, Start does not.
//     A call that does not fit the others' (another kind, type or length) fails at
//     all of them, with an error that says how they differ.
//  3. The buffers belong to the group until the call is over, those that are only
//     sent too: other ranks read them where they lie.
//  4. When it is over at a rank, that rank's result is whole and its buffers are
//     its own again.
//  5. A rank that dies, or does not come within the call's time, ends the call at
//     all others with a RankError that names it. The group is broken then: close
//     it, join a new one, and begin again from values that are known. What closing a Memory
//     answers with ErrWrites stays for the life of the process.
package coll
