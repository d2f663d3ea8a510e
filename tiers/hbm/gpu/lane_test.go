//go:build cgo

package gpu

import (
	"math"
	"slices"
	"testing"

	"psrt/csrc/accel/acceltest"
	"psrt/csrc/seedtest"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm"
	"psrt/tiers/table"
)

// TestLanes: calls of which nobody waits for one before the next is made, and for them in
// any order, do to few rows that all want what they do one after the other on the host. A
// fake driver does a stream's work when somebody asks for an event in it, and another's
// where that waits for it: what is not waited for on the device is too early or too late.
func TestLanes(t *testing.T) {
	for _, spec := range []table.Spec{
		{Name: "adagrad", ID: 1, Dim: 4, Optimizer: table.Optimizer{Kind: table.AdaGrad}},
		{Name: "adam", ID: 2, Dim: 17, Optimizer: table.Optimizer{Kind: table.Adam}},
	} {
		for range 4 {
			t.Run(spec.Name, func(t *testing.T) { lanesOf(t, &Device{Library: driver(t)}, spec) })
		}
	}
}

// call is one that nobody has waited for yet.
type call struct {
	what  string
	fence hbm.Fence
	buf   int
	want  []float32 // in the buffer then, or in found
	slots []uint32
	found []uint32
	// Refused of the device, and of the host.
	refused *int
	other   int
}

func lanesOf(t *testing.T, d *Device, spec table.Spec) {
	const most, hot = 150, 60
	r := seedtest.Rand(t)
	acc, err := accessor.New(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	index := newIndex(t, slots)
	host, err := hbm.Host{Node: -1}.Open(acc, index, slots, 100)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := d.Open(acc, index, slots, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, a := range []hbm.Arena{host, dev} {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	width := acc.RowFloats()
	dev.(*arena).patient = most / 2
	var buffers [8][]float32
	for i := range buffers {
		if buffers[i], err = dev.Buffer(slots * width); err != nil {
			t.Fatal(err)
		}
	}
	all := make([]uint32, slots)
	for i := range all {
		all[i] = uint32(i)
	}
	random := func(to []float32) {
		for i := range to {
			to[i] = float32(r.NormFloat64())
		}
	}
	// What optimizers keep is of squares: of a negative one they make NaN, of which a card
	// makes another than the host.
	rows := func(to []float32) {
		for i := range to {
			to[i] = r.Float32()
		}
	}
	rows(buffers[0])
	host.CopyIn(all, buffers[0])
	if err := dev.Wait(dev.CopyIn(all, buffers[0])); err != nil {
		t.Fatal(err)
	}
	for range hot {
		if err := index.Set(r.Uint64N(2*hot), r.Uint32N(hot)); err != nil {
			t.Fatal(err)
		}
	}
	var under []call
	wait := func(i int) {
		t.Helper()
		c := under[i]
		under = slices.Delete(under, i, i+1)
		if err := dev.Wait(c.fence); err != nil {
			t.Fatal(err)
		}
		for k, x := range c.want {
			if got := buffers[c.buf][k]; math.Float32bits(x) != math.Float32bits(got) {
				t.Fatalf("%s of slots %v: float %d is %v, on the host %v", c.what, c.slots, k, got, x)
			}
		}
		if !slices.Equal(c.found, c.slots) && c.found != nil {
			t.Fatalf("found %v, on the host %v", c.found, c.slots)
		}
		if c.refused != nil && *c.refused != c.other {
			t.Fatalf("%d updates refused, on the host %d", *c.refused, c.other)
		}
	}
	distinct := func(n int) []uint32 {
		some := slices.Clone(all[:hot])
		r.Shuffle(hot, func(i, k int) { some[i], some[k] = some[k], some[i] })
		return some[:min(n, hot)]
	}
	for range 400 {
		buf := r.IntN(len(buffers))
		for i := 0; i < len(under); {
			if under[i].buf == buf || r.IntN(12) == 0 {
				wait(i)
				i = 0
				continue
			}
			i++
		}
		b := buffers[buf]
		c := call{buf: buf}
		n := 1 + r.IntN(most)
		some := make([]uint32, n)
		for i := range some {
			some[i] = r.Uint32N(hot)
		}
		switch r.IntN(5) {
		case 0:
			c.what, c.slots = "a copy in", distinct(n/4+1)
			moved := b[:len(c.slots)*width]
			rows(moved)
			host.CopyIn(c.slots, moved)
			c.fence = dev.CopyIn(c.slots, moved)
		case 1:
			c.what, c.slots = "a copy out", distinct(n/4+1)
			c.want = make([]float32, len(c.slots)*width)
			host.CopyOut(c.slots, c.want)
			c.fence = dev.CopyOut(c.slots, b[:len(c.want)])
		case 2:
			c.what, c.slots, c.want = "a gather", some, make([]float32, n*spec.Dim)
			host.Gather(some, c.want, spec.Dim)
			c.fence = dev.Gather(some, b[:len(c.want)], spec.Dim)
		case 3:
			c.what, c.slots, c.refused = "an update", some, new(int)
			grads := b[:n*spec.PushFloats()]
			if random(grads); r.IntN(4) == 0 {
				grads[r.IntN(len(grads))] = float32(math.Inf(1))
			}
			host.Update(some, grads, &c.other)
			c.fence = dev.Update(some, grads, c.refused)
		case 4:
			keys := make([]uint64, n)
			for i := range keys {
				keys[i] = r.Uint64N(2 * hot)
			}
			c.what, c.slots, c.found, c.want = "a find", make([]uint32, n), make([]uint32, n), make([]float32, n*spec.Dim)
			host.Find(keys, c.slots, c.want, spec.Dim)
			c.fence = dev.Find(keys, c.found, b[:len(c.want)], spec.Dim)
		}
		under = append(under, c)
	}
	for len(under) > 0 {
		wait(r.IntN(len(under)))
	}
}

// TestOneLaneOfBefore: a library that was built before streams could wait has all in one.
func TestOneLaneOfBefore(t *testing.T) {
	old := acceltest.Build(t, "-DSIZE=offsetof(psrt_accel_ops,wait)")
	for _, library := range []string{old, acceltest.Build(t)} {
		d, err := PickFrom(library, 0)
		if err != nil {
			t.Fatal(err)
		}
		spec := table.Spec{Name: "adam", ID: 2, Dim: 17, Optimizer: table.Optimizer{Kind: table.Adam}}
		lanesOf(t, d, spec)
		twins(t, d, spec)
		acc, err := accessor.New(spec, 1)
		if err != nil {
			t.Fatal(err)
		}
		a, err := d.Open(acc, newIndex(t, slots), slots, 100)
		if err != nil {
			t.Fatal(err)
		}
		if apart := a.(*arena).mover() == &a.(*arena).lane[moving]; apart != (library != old) {
			t.Errorf("%s: rows are moved in a lane of their own: %v", library, apart)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOnTheirWayOut: rows on their way in have the host find the keys, those on their way out do not.
func TestOnTheirWayOut(t *testing.T) {
	spec := table.Spec{Name: "adagrad", ID: 1, Dim: 4, Optimizer: table.Optimizer{Kind: table.AdaGrad}}
	acc, err := accessor.New(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := (&Device{Library: driver(t)}).Open(acc, newIndex(t, slots), slots, 100)
	if err != nil {
		t.Fatal(err)
	}
	a := opened.(*arena)
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	b, err := a.Buffer(8 * acc.RowFloats())
	if err != nil {
		t.Fatal(err)
	}
	some := []uint32{1, 2, 3, 4, 5, 6, 7, 8}
	in := a.CopyIn(some, b)
	if !a.moves() {
		t.Error("rows on their way in are not moved")
	}
	if err := a.Wait(in); err != nil {
		t.Fatal(err)
	}
	if a.moves() {
		t.Error("rows are moved that are there")
	}
	out := a.CopyOut(some, b)
	if a.moves() {
		t.Error("rows on their way out count as on their way in")
	}
	a.CopyIn(some, b) // behind them
	if !a.moves() {
		t.Error("rows on their way in behind others are not moved")
	}
	if err := a.Wait(out); err != nil {
		t.Fatal(err)
	}
}
