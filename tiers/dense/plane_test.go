package dense

import (
	"slices"
	"sync"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/rdma/mem"
	"psrt/tiers/table"
)

var steps = Rule{Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}} // of gradient -1: values count versions

// counting is a vector of some blocks, one of odd length, that count versions.
func counting(t *testing.T) (v *Vector, publish func()) {
	v = newVector(t, Part{steps, make([]float32, 1000)}, Part{steps, make([]float32, 37)}, Part{steps, make([]float32, 100)})
	return v, func() {
		for i := range v.Blocks() {
			v.Apply(i, slices.Repeat([]float32{-1}, len(v.Values(i))))
		}
		v.Publish()
	}
}

// isVersion says whether all values are of that version.
func isVersion(p *Plane, version uint64) bool {
	return !slices.ContainsFunc(p.Values(0, 3), func(x float32) bool { return x != float32(version) })
}

// TestHeldPlanesStay lets pulls of any length hold planes while versions come,
// and holds every one against the version at which it was taken.
func TestHeldPlanesStay(t *testing.T) {
	rng := seedtest.Rand(t)
	v, publish := counting(t)
	type hold struct {
		p       *Plane
		version uint64
	}
	var holds []hold
	for step := range 5000 {
		switch k := rng.IntN(5); {
		case k < 2:
			publish()
		case k == 2 && len(holds) < 6:
			p := v.Published()
			err := v.Hold(p)
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, hold{p, v.Version()})
		case k == 4 && len(holds) < 6: // what was version 0 elsewhere, say
			p, err := v.Recall(make([]float32, 1137))
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, hold{p, 0})
		case len(holds) > 0:
			i := rng.IntN(len(holds))
			v.Release(holds[i].p)
			holds = slices.Delete(holds, i, i+1)
		}
		if !isVersion(v.Published(), v.Version()) {
			t.Fatalf("step %d: what is published is not version %d", step, v.Version())
		}
		for _, h := range holds {
			if !isVersion(h.p, h.version) {
				t.Fatalf("step %d: a plane held at version %d has changed at version %d", step, h.version, v.Version())
			}
		}
	}
	if n := v.Planes(); n > 6+2 {
		t.Errorf("%d planes for at most 6 holds, want at most 8", n)
	}
}

// TestOthersReadHeldPlanes: readers of held planes run beside the updates, as
// devices do, and none sees a torn version.
func TestOthersReadHeldPlanes(t *testing.T) {
	v, publish := counting(t)
	released := make(chan *Plane, 3)
	var readers sync.WaitGroup
	for range 300 {
		publish()
		p := v.Published()
		err := v.Hold(p)
		if err != nil {
			t.Fatal(err)
		}
		version := v.Version()
		readers.Go(func() {
			if !isVersion(p, version) {
				t.Errorf("version %d is torn", version)
			}
			released <- p
		})
		publish()
		if version%5 != 0 { // up to two stay out
			v.Release(<-released)
		}
		for len(released) == cap(released) {
			v.Release(<-released)
		}
	}
	go func() { readers.Wait(); close(released) }()
	for p := range released {
		v.Release(p)
	}
}

// TestPlanesAreFew: without holds there are two, and a third from the first on.
func TestPlanesAreFew(t *testing.T) {
	v, publish := counting(t)
	for range 5 {
		publish()
	}
	if v.Planes() != 2 {
		t.Errorf("%d planes without a hold, want 2", v.Planes())
	}
	for range 5 {
		p := v.Published()
		err := v.Hold(p)
		if err != nil {
			t.Fatal(err)
		}
		publish()
		v.Release(p)
	}
	if v.Planes() != 3 {
		t.Errorf("%d planes for one hold at a time, want 3", v.Planes())
	}
}

// TestPlaneIsOnePiece: adjacent blocks are one range of the memory to register.
func TestPlaneIsOnePiece(t *testing.T) {
	v, _ := counting(t)
	p := v.Published()
	all := mem.Bytes(p.Values(0, v.Blocks()))
	if len(all) != 4*1137 || &all[0] != &p.Memory().Bytes()[0] {
		t.Errorf("%d bytes that do not begin where the plane's memory does", len(all))
	}
	if got := len(p.Values(1, 3)); got != 137 {
		t.Errorf("blocks 1 and 2 are %d floats, want 137", got)
	}
}

func TestReleaseTwice(t *testing.T) {
	v, _ := counting(t)
	p := v.Published()
	err := v.Hold(p)
	if err != nil {
		t.Fatal(err)
	}
	v.Release(p)
	defer func() {
		if recover() == nil {
			t.Error("a second release was accepted")
		}
	}()
	v.Release(p)
}
