// Package tables measures an embedding table in memory (tiers/dram), by itself,
// beside a loop that does no more with the same bytes.
//
// It owns the load (which keys, in which order), the operations, the bare table
// that is the limit, and the checks that both tables answer with the right
// rows. It must not know flags, networks, or how reports are shown.
//
// The life of one run: the rows are divided among lanes, each a table with a
// thread of its own, as in a server. Every lane builds its table and a bare one
// (csrc/bare) by inserting the same keys in the same order; then batches of
// keys, which walk through all rows in random order before one comes again, are
// looked up, gathered and updated, table and bare table taking turns (package
// turns). Preparing a batch and checking what came of it is not timed. The sums
// of all answers of a round must be the same for both, the last batch of a
// round is held to answers known without any table, and rows under watch are
// updated a second time by plain arithmetic and must be equal in the end.
package tables
