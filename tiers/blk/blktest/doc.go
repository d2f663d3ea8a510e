// Package blktest holds every blk.Device to the same rules.
//
// It owns the conformance suite (Run) and helpers that issue one request and
// wait for it. It must not know how a device works: what only one kind can do,
// such as a crash, is tested beside that kind.
//
// The life of one check: Run makes a device by the factory, one for each
// subtest, does what the subtest's name says, closes the device and looks that
// closing again does nothing.
package blktest
