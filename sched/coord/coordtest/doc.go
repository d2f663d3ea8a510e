// Package coordtest is the conformance suite of coord.Coordinator: what every
// implementation does, and what the helpers of coord do on top of it.
//
// It owns tests only. It must not know an implementation. An implementation's
// own test calls Run with a function that makes a fresh store and two handles
// to it, as two processes would have them; each subtest gets its own. Absent is a
// store whose writes fail as those of one that goes away do, for tests of its users.
package coordtest
