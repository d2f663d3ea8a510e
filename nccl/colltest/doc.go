// Package colltest is the conformance suite of collectives: whatever implements
// coll.Group runs it in a three-line test.
//
// It owns Naive, the definition of every call's result, written once, element by
// element. It must not know an implementation.
//
// The life of one check: the factory makes the groups of n ranks in this process;
// one goroutine a rank makes the same call over patterns from the test's seed; what
// each received is held against Naive, to the bit. Checks of failure then let a rank
// die, stay away, or make another call, and want an error at all others that names
// it.
package colltest
