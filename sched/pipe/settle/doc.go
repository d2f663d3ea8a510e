// Package settle decides how deep a pipeline is and how many threads its stages have, from
// what was measured of it, and on which NUMA nodes they run.
//
// It owns the rules. It must not know time, goroutines or what a step is: it is given
// measurements and answers with a number, so that it can be simulated.
//
// The life of one decision: while the line waits for values more than a little, one
// more step is pulled ahead for some windows. If steps became faster the line stays
// there; if not, it goes back, and the next trial comes after a pause that doubles.
// Where the line waits for much of the time, or where the trial's steps differ by many
// standard errors, fewer windows do.
// Where it hardly waits, one step fewer is tried in the same way, because values that
// are pulled early lack more updates; and where it waits much at any depth, the two take
// turns, so that a depth which chance has favoured is left again. Threads are settled
// likewise: the stage that the line waits for gets more, or where it has all that there
// are, the other gets fewer, and that is kept if steps are no slower. One of the two
// policies at a time tries something.
package settle
