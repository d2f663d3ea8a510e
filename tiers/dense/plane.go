package dense

import (
	"fmt"

	"psrt/rdma"
	"psrt/rdma/mem"
)

// Plane is the values of all blocks at one version.
type Plane struct {
	v      *Vector
	arena  *mem.Arena
	values []float32
	holds  int
}

// Memory is what holds the plane's values, to be registered.
func (p *Plane) Memory() rdma.Memory { return p.arena }

// Values are those of the blocks from first up to, not including, end.
func (p *Plane) Values(first, end int) []float32 {
	from, to := p.v.at(first), p.v.at(end)
	return p.values[from:to:to]
}

func (v *Vector) addPlane() (*Plane, error) {
	a, err := mem.New(mem.Config{Size: 4 * v.floats, Node: v.node, Purpose: "dense values"})
	if err != nil {
		return nil, fmt.Errorf("dense: %d blocks of %d floats together: %w", len(v.blocks), v.floats, err)
	}
	p := &Plane{v: v, arena: a, values: mem.Float32s(a.Bytes())}
	v.planes = append(v.planes, p)
	return p, nil
}

// free is a plane that nobody reads: neither published nor held.
func (v *Vector) free() *Plane {
	for _, p := range v.planes {
		if p != v.published && p.holds == 0 {
			return p
		}
	}
	return nil
}

// Published is the plane of the current version, for reads that end before the
// owner's next Publish.
func (v *Vector) Published() *Plane { return v.published }

// Hold keeps a plane as it is until Release: the published one, or one that is held.
// Each Hold is released once.
func (v *Vector) Hold(plane *Plane) error {
	if plane != v.published && plane.holds == 0 {
		panic("dense: a plane is held that is neither published nor held")
	}
	held := 1 // the published one
	for _, p := range v.planes {
		if p.holds > 0 && p != v.published {
			held++
		}
	}
	// The held ones, the next version and the one after it: when the first of
	// them is published, the second is what Apply finds free.
	if len(v.planes) < held+2 {
		if _, err := v.addPlane(); err != nil {
			return err
		}
	}
	plane.holds++
	return nil
}

// Recall holds a plane with values, of all blocks one behind the other, that were published
// before and elsewhere. Until Release it is like one that was held then. Not between an
// Apply or a Load and its Publish.
func (v *Vector) Recall(values []float32) (*Plane, error) {
	if len(values) != v.floats || v.next != nil {
		panic(fmt.Sprintf("dense: %d values are recalled of %d, or while others are written", len(values), v.floats))
	}
	need := 3 // the published one, this one, and the next version
	for _, p := range v.planes {
		if p.holds > 0 { // if it is the published one, for the version after the next
			need++
		}
	}
	if len(v.planes) < need {
		if _, err := v.addPlane(); err != nil {
			return nil, err
		}
	}
	p := v.free()
	copy(p.values, values)
	p.holds++
	return p, nil
}

// Release ends a Hold or a Recall.
func (v *Vector) Release(p *Plane) {
	if p.v != v || p.holds == 0 {
		panic("dense: a plane is released that is not held")
	}
	p.holds--
}

// Planes is how many there are.
func (v *Vector) Planes() int { return len(v.planes) }
