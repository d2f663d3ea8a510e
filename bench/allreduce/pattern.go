package allreduce

import "fmt"

// value of element i at a rank: a small whole number, so that sums are exact in any
// order. mpi/allreduce.c has the same line.
func value(i, rank int, seed uint32) float32 {
	return float32(int32((uint32(i)*2654435761+uint32(rank)*40503+seed)>>16&7) - 3)
}

func fill(v []float32, rank int, seed uint32) {
	for i := range v {
		v[i] = value(i, rank, seed)
	}
}

// check holds a result against the pattern's sum.
func check(v []float32, ranks int, seed uint32) error {
	for i, got := range v {
		want := float32(0)
		for r := range ranks {
			want += value(i, r, seed)
		}
		if got != want {
			return fmt.Errorf("allreduce: element %d of %d is %v, the sum over %d ranks is %v", i, len(v), got, ranks, want)
		}
	}
	return nil
}
