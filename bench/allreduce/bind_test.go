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
	for _, c := range []Config{{Transport: "tcp", Ranks: 3}, {Transport: "tcp", Ranks: 2, Collective: NCCL}, {Transport: "shm", Ranks: 2}} {
		if c.bind() != nil {
			t.Errorf("%d ranks over %s are bound, collective %q", c.Ranks, c.Transport, c.Collective)
		}
	}
}
