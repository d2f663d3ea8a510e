package compress

import "slices"

// Dense chooses the largest values of a dense gradient, and keeps the others to be
// added to the next one.
type Dense struct {
	left []float32
	keep [][]uint16
	c    chooser
}

// Choose adds what was left to grads and says which of each block's values are sent, by
// places in rising order: a share of them, or all with all. What is exact is left out.
func (d *Dense) Choose(grads []float32, blocks []Block, offsets []int, share float64, all bool) [][]uint16 {
	if d.left == nil {
		d.left = make([]float32, len(grads))
	}
	d.keep = slices.Grow(d.keep[:0], len(blocks))[:len(blocks)]
	for i, b := range blocks {
		keep := d.keep[i][:0]
		if !b.Exact {
			left := d.left[offsets[i]:][:len(b.Values)]
			for j, f := range left {
				b.Values[j] += f
			}
			k := portion(len(b.Values), share)
			if all {
				k = len(b.Values)
			}
			d.c.choose(len(b.Values), k, func(j int) uint32 { return magnitude(b.Values[j]) }, func(x, y int32) int { return int(x - y) }, func(j int) { keep = append(keep, uint16(j)) })
			slices.Sort(keep)
			copy(left, b.Values)
			for _, j := range keep {
				left[j] = 0
			}
		}
		d.keep[i] = keep
	}
	return d.keep
}

// Forget has nothing be left of some blocks, which Choose has seen.
func (d *Dense) Forget(blocks []Block, offsets []int) {
	for i, b := range blocks {
		clear(d.left[offsets[i]:][:len(b.Values)])
	}
}

// Take adds what was left to grads, all of which are sent, and keeps nothing.
func (d *Dense) Take(grads []float32) {
	for i, f := range d.left {
		grads[i] += f
	}
	d.left = nil
}
