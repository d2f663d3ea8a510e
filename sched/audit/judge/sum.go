package judge

import "psrt/sched/tree"

// part is what one push adds to one row.
type part struct {
	worker int
	grads  []float32 // nil: absent
}

// add is the sum of parts: in BSP by worker along the tree, otherwise as they came.
// It is the naive twin of the servers' kernels. nil where all are absent.
func add(parts []part, staleness, workers int, merges []tree.Merge) []float32 {
	if staleness != 0 {
		var sum []float32
		for _, p := range parts {
			sum = plus(sum, p.grads)
		}
		return sum
	}
	by := make([][]float32, workers)
	for _, p := range parts { // further ones of a worker are added to its first
		if p.worker < workers {
			by[p.worker] = plus(by[p.worker], p.grads)
		}
	}
	for _, m := range merges {
		by[m.Dst] = plus(by[m.Dst], by[m.Src])
	}
	return by[0]
}

// plus is a new row, or one of the two where the other is absent.
func plus(a, b []float32) []float32 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	c := make([]float32, len(a))
	for i := range c {
		c[i] = a[i] + b[i]
	}
	return c
}
