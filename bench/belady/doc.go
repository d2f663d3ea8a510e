// Package belady says how often a table over two tiers must read its disk: an
// offline simulator of policies over a recorded trace, against which package
// tiers is measured.
//
// It owns the trace (its form in a file, and drawn ones), the simulators, and
// the run of a real table over the same trace. The simulators are written from
// the policies' definitions, share no code with tiers/policy, and may be slow.
// It must not know how a table keeps its rows.
//
// The life of one comparison: a Trace is a list of batches, each with the
// distinct keys that it looks up. Simulate counts, for a policy and a number of
// rows that fit in memory, the reads of rows that were there but had left: the
// first use of a key makes its row and reads nothing. Measure does the same
// with a tiers.Tiered, that announces its batches as training does.
package belady
