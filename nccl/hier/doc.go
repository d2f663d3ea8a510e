// Package hier says how ranks on several hosts add a vector so that each host's link
// carries it once, whatever number of ranks the host has: inside each host first, then
// between hosts, in the order of additions that was given.
//
// It owns who adds which bytes and who needs them. It must not know transports, memory
// or how bytes travel (package ring does that), and it is pure.
//
// The order is a tree. Where all ranks below one of its nodes are on one host, they are
// a part: their sum is a value that the tree has anyway, so that the result is the same
// to the bit as without hosts. A host whose ranks lie in several such subtrees is several
// parts; it costs bytes, not correctness.
//
// The life of one vector over h parts, of which one has k ranks:
//
//  1. Each rank adds its part's bytes in 1/k of the vector: it owns them in its part.
//  2. Owners of the same bytes in different parts meet. Each finishes 1/h of them: it
//     reads the others' sums and writes the result to those others.
//  3. Each owner gives what it owns to the ranks of its part.
//
// A part takes (h-1)/h of the vector in step 2 to add and (h-1)/h of results, as each rank
// of a flat ring does.
package hier
