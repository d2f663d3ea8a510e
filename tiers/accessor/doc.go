// Package accessor gives a row its meaning: which floats are weights and which
// are optimizer state, how a new row is born, and which kernel rule updates it.
//
// It owns the row layout (Dim weights, then the state in the order of
// kernels.Kind) and the birth of rows. It must not know where rows are stored
// or how keys are spread over servers.
//
// A row is born from (seed, table ID, key) and nothing else: element i is a
// function of a 64-bit counter, computed with integers and one exact
// multiplication, so that it is the same on every machine, in any order of
// arrival. There is no libm in it: the normal distribution is a sum of twelve
// uniforms (Irwin-Hall, cut at 6 deviations).
//
// The life of one row: the storage finds that a key is new, gives the accessor
// the memory, Born fills weights and state (and Begin lets a user's rule look at
// the row); from then on Update changes it in place.
package accessor
