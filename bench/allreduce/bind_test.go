package allreduce

import (
	"reflect"
	"testing"
)

func TestTwoCores(t *testing.T) {
	pairs := func(cpu int) string { return string(rune('a' + cpu/2)) }
	for _, c := range []struct {
		cpus []int
		want [][]int
	}{
		{[]int{0, 1, 2, 3}, [][]int{{0}, {2}}},
		{[]int{3, 5}, [][]int{{3}, {5}}},
		{[]int{2, 3}, nil},
		{[]int{7}, nil},
		{nil, nil},
	} {
		if got := twoCores(c.cpus, pairs); !reflect.DeepEqual(got, c.want) {
			t.Errorf("of CPUs %v: %v, want %v", c.cpus, got, c.want)
		}
	}
	if (&Config{Ranks: 3}).bind() != nil || (&Config{Ranks: 2, Collective: NCCL}).bind() != nil {
		t.Error("three ranks, or two that add by NCCL, are bound")
	}
}
