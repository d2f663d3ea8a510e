// Package slowtest is a table that answers late, for tests of lanes: lookups end
// in another order than they began, some fail, memory is scarce, and a row has
// another id each time that it is pinned anew.
//
// It owns the bad luck and the check that nobody uses a row that is not pinned.
// It must not be imported by code that is not a test, and stores nothing itself:
// rows lie in a table in memory.
//
// # The life of a lookup
//
// Start finds out at once whether there is memory, and for most lookups sets a
// timer; the keys are spoiled in place where the test allows it. When time is up
// the table wakes its lane, and Poll does what a table in memory does at once.
package slowtest
