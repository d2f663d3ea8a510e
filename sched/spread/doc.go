// Package spread is a table whose rows lie on several cards, those of one host, say:
// each key on one of them, and all that a step reads or changes exchanged by
// all-to-all among the ranks that drive the cards.
//
// It owns who has which key, the plan of an exchange, and the memory that is
// exchanged. It must not know what the group's collectives go over (NCCL among GPUs,
// rings over shared memory among their twins), where a rank has its rows, or what is
// trained.
//
// Keys are placed by package place, cards weighted by what they were measured to do, so
// that unlike ones end together. Gradients of one key are added in the tree over the
// ranks before its row is changed, once a step: with as many micro-batches as ranks the
// rows, and so the digest, are those of one card that adds the same tree.
//
// The life of a step, at all ranks together:
//
//	Pull   keys, by owner  ->  counts, then keys, to their owners
//	       the owner looks them up and gathers, in one go where it can  ->  rows, back
//	Push   gradients, in the same order, no key again  ->  added, applied
//	Release  the owner lets the rows go
//
// A rank that fails aborts the group, so that none waits for it: join a new one.
// Rows can be spread again by it, but not after ErrLate: they are to be closed then.
package spread
