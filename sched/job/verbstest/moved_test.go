//go:build psrt_moves

package verbstest

import (
	"runtime"
	"testing"
)

// movedBytes is what the runtime's memmove was given, 256 bytes or more at a
// time: .ci/moves.sh builds with a runtime that adds it up.
func movedBytes() uint64 { return runtime.MovedBytes() }

// TestMovesAreSeen: else the silence of TestMoves proves nothing.
func TestMovesAreSeen(t *testing.T) {
	from, to := make([]byte, 1<<20), make([]byte, 1<<20)
	was := movedBytes()
	copy(to, from)
	if moved := movedBytes() - was; moved < 1<<20 || moved > 2<<20 {
		t.Errorf("a copy of %d bytes moved %d", len(to), moved)
	}
}
