//go:build !psrt_moves

package verbstest

// movedBytes is nothing: the runtime does not say what it moves.
func movedBytes() uint64 { return 0 }
