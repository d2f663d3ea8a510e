package doctor

import (
	"fmt"
	"testing"
)

// What machines of a kind have in common is said once; what is between two of them, and
// what is of this one, is not mixed with it.
func TestSameEverywhere(t *testing.T) {
	all := []Finding{{Name: "GPU", State: Missing, Figure: "none"}}
	for r := range 6 {
		peer := fmt.Sprintf("rank %d", r)
		all = append(all, Finding{Name: "peer", State: OK, Peer: peer}, Finding{Name: "GPU", State: Missing, Figure: "none", Peer: peer, theirs: true},
			Finding{Name: "disk", State: Warn, Figure: fmt.Sprint(r / 5), Peer: peer, theirs: true})
	}
	got := map[string]int{}
	for _, f := range SameEverywhere(all) {
		got[f.Peer+": "+f.Name+" "+f.Figure]++
	}
	for _, want := range []string{": GPU none", "rank 0: peer ", "rank 5: peer ", "rank 0 and 5 more: GPU none", "rank 0 and 4 more: disk 0", "rank 5: disk 1"} {
		if got[want] != 1 {
			t.Errorf("%q is there %d times", want, got[want])
		}
	}
	if len(got) != 10 {
		t.Errorf("%v", got)
	}
}
