// Package hbm measures rows of embeddings in a GPU's memory, or in that of the host,
// its twin: found and gathered into a batch, filled from the host, updated by the
// optimizer, each beside a copy of the same bytes in the same memory; and a step
// whose rows are copied in ahead beside one whose rows are all there.
//
// It owns the rows, their places and the checks that what was gathered is what was
// put there. It must not know flags, or how reports are shown.
//
// The life of one row of a report: a bed (a card, or the host) has the rows and the
// numbers of a batch, each named once and drawn evenly. Its work and the copy take
// turns (package turns), each timed by the bed: by events on a card, by the clock on
// the host. Then the batch is read back and held against what the rows are.
package hbm
