package kernels

import "psrt/csrc/level"

// Level is one form of the kernels, as package level numbers them. All give the same
// bits; the package functions use Best, tests run every level.
type Level int32

// Go is the form in Go loops.
const Go Level = level.Go

// String is the level's name.
func (l Level) String() string { return level.Name(l) }

// Levels lists the levels that this build and CPU can run, slowest first.
func Levels() []Level { return level.UpTo(Best()) }
