//go:build !psrt_invariants

package invariant

import (
	"reflect"
	"testing"
)

func TestOffCostsNothing(t *testing.T) {
	var c CloseChecker
	b := []byte{1}
	if n := testing.AllocsPerRun(100, func() {
		c.Open("region", "rows")
		Assert(false, "not evaluated in this build")
		Mangle(b)
		c.Close()
		c.Close()
		c.AssertOpen()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if b[0] != 1 || len(Leaks()) != 0 {
		t.Error("the off build did something")
	}
	if reflect.TypeFor[CloseChecker]().Size() != 0 {
		t.Error("CloseChecker takes room in a build without checks")
	}
}
