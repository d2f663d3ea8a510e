// Package repolint is the house's rules as tests: which floor may import
// which, where cgo and unsafe may stand, what a package must explain about
// itself, what pure packages must not touch.
//
// It owns one list of rules (Rules), each a plain function from a parsed Tree
// to findings, and a file under testdata for each rule that proves that it
// fires. Every message ends with what to write instead, because whoever reads
// it has just been stopped.
//
// It must not know what any package does: a rule speaks of paths, imports and
// syntax only. It imports nothing of ours.
//
// The life of one check: Load reads the tree once and parses every Go file;
// each rule walks it and returns findings; the test prints them as
// path:line: message. A new rule is a function here, an entry in Rules and a
// fixture, and the test demands all three.
package repolint
