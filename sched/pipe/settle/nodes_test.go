package settle

import "testing"

func TestAffine(t *testing.T) {
	cpus := func(node int) int { return map[int]int{0: 4, 1: 4}[node] } // 2 has memory alone
	for _, c := range []struct {
		worker int
		disks  []int
		want   Nodes
	}{
		{-1, []int{0}, Nodes{-1, -1, -1}},
		{2, []int{0}, Nodes{-1, -1, -1}},
		{1, nil, Nodes{1, 1, 1}},
		{1, []int{0, 0}, Nodes{0, 1, 1}},
		{1, []int{0, 1}, Nodes{1, 1, 1}},
		{1, []int{0, -1}, Nodes{1, 1, 1}},
		{1, []int{-1}, Nodes{1, 1, 1}},
		{0, []int{2}, Nodes{0, 0, 0}},
		{0, []int{0}, Nodes{0, 0, 0}},
	} {
		if got := Affine(c.worker, c.disks, cpus); got != c.want {
			t.Errorf("worker at %d, disks at %v: %+v, want %+v", c.worker, c.disks, got, c.want)
		}
	}
}
