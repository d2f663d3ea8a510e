// Package invariant holds the checks that are paid for only in builds with the
// tag psrt_invariants: assertions, double-close detection, the creation stacks
// of handles that were never closed, and the overwriting of released buffers.
// Without the tag every type here is empty and every function compiles to
// nothing; code that must compute an argument first asks Enabled, a constant.
//
// It imports nothing of psrt and must not know what it checks.
//
// The life of one handle: its constructor calls CloseChecker.Open with a kind
// and a purpose; its Close calls CloseChecker.Close; the package's TestMain
// runs Main, which fails the test binary and prints the creating stack of every
// handle still open, and (in both builds) of every goroutine of psrt that
// outlived the tests.
//
// The table of open handles is the only process-wide state, and it exists only
// under the tag: a leak checker that every owner had to be handed explicitly
// would itself be a parameter of every constructor.
package invariant
