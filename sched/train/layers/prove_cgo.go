//go:build cgo

package layers

import (
	"fmt"
	"math"

	"psrt/csrc/blas"
	"psrt/sched/train/model"
)

// furthest is how far a device's prediction may lie from the processor's: both round some
// hundred sums of which each is within a few units of the last place.
const furthest = 1e-4

// prove finds out how sums are to be cut, and computes a whole leaf both ways.
func (d *Device) prove() error {
	dense := make([]float32, d.shape.total)
	if err := d.model.InitDense(dense); err != nil {
		return err
	}
	for i := range dense { // what begins as zeros would prove nothing
		dense[i] += number(i, 1) / 64
	}
	if err := d.Values(dense); err != nil {
		return err
	}
	d.cut, d.exact = blas.Chained(d.shape.products(d.most))
	same, err := d.proveOne(d.most)
	d.exact = d.exact && same
	d.same = map[int]bool{d.most: d.exact}
	return err
}

// proveOne says whether a leaf of n examples has the processor's bits, with the values of
// before.
func (d *Device) proveOne(n int) (same bool, err error) {
	got, want := d.trial(n), d.trial(n)
	if err := d.some([]Leaf{got}); err != nil {
		return false, err
	}
	if err := d.onProcessor(&want); err != nil {
		return false, err
	}
	for i, p := range got.Out.Preds {
		if w := want.Out.Preds[i]; !(math.Abs(float64(p-w)) <= furthest*(1+math.Abs(float64(w)))) {
			return false, fmt.Errorf("%w: prediction %d of %d is %g, the processor's %g: update its driver or library, or leave it out", ErrDiffers, i, n, p, w)
		}
	}
	a, b := &got.Out, &want.Out
	return equal(a.Preds, b.Preds) && equal(a.G, b.G) && equal(a.X0, b.X0) && equal(a.Dense, b.Dense), nil
}

// fits says whether the device computes leaves of n examples. Where it has the processor's
// bits with whole leaves, and not with some shorter one, as libraries do short products in
// other ways, those are the processor's.
func (d *Device) fits(n int) (bool, error) {
	if !d.exact || n == 0 {
		return true, nil
	}
	same, known := d.same[n]
	if known {
		return same, nil
	}
	same, err := d.proveOne(n)
	d.same[n] = same && blas.AreChained(d.shape.products(n), d.cut)
	return d.same[n], err
}

// onProcessor computes a leaf there.
func (d *Device) onProcessor(l *Leaf) error {
	if d.scratch == nil {
		d.scratch = d.model.NewScratch(d.most)
	}
	in := l.In
	in.Dense = d.values
	return d.scratch.StepDense(&in, &l.Out)
}

// trial is a leaf of numbers of both signs.
func (d *Device) trial(n int) (l Leaf) {
	x := make([]float32, n*d.shape.input)
	for i := range x {
		x[i] = number(i, 2)
	}
	l.In = model.DenseLeaf{Labels: make([]float32, n), Z: make([]float32, n), X0: x, Scale: 1 / float32(n), FirstRow: 12345, Epoch: 1}
	for i := range n {
		l.In.Labels[i], l.In.Z[i] = float32(i%2), number(i, 3)
	}
	l.Out = model.DenseGrad{Dense: make([]float32, d.shape.total), G: make([]float32, n), X0: make([]float32, len(x)), Preds: make([]float32, n)}
	return l
}

func number(i, stream int) float32 {
	x := uint32(i)*2654435761 + uint32(stream)*40503
	x = (x ^ x>>16) * 0x85ebca6b
	return float32(int32(x^x>>13)) / (1 << 31)
}

func equal(a, b []float32) bool {
	for i, x := range a {
		if math.Float32bits(x) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}
