package launch

import (
	"fmt"
	"slices"
	"testing"
)

// The line that gives the reason of a death comes first, whatever follows it.
func TestReasonIsKept(t *testing.T) {
	for _, lines := range []int{3, 19, 200} {
		var tl tail
		fmt.Fprintf(&tl, "it begins\npanic: runtime error: invalid memory address or nil pointer dereference\n")
		for i := range lines {
			fmt.Fprintf(&tl, "\tframe %d\n", i)
		}
		got := tl.last()
		i := slices.IndexFunc(got, givesReason)
		if i < 0 || i > 1 || got[len(got)-1] != fmt.Sprintf("\tframe %d", lines-1) || len(got) > tailLines+2 {
			t.Errorf("%d lines: %q", lines, got)
		}
	}
}
