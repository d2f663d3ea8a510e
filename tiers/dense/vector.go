package dense

import (
	"errors"
	"fmt"

	"psrt/csrc/kernels"
	"psrt/rdma/mem"
)

// MaxFloats bounds a block.
const MaxFloats = 1 << 28

// Part is a block as it begins.
type Part struct {
	Rule   Rule
	Values []float32
}

// Vector is the blocks of one owner.
type Vector struct {
	node      int
	blocks    []block
	floats    int // of all blocks
	planes    []*Plane
	published *Plane
	next      *Plane // being written, nil between Publish and the first change
	version   uint64
	states    *mem.Arena // nil where no rule has state
}

type block struct {
	rule  kernels.Rule
	first int // of its values in a plane
	n     int
	state []float32
	done  bool // its values lie in the next plane
}

// New makes the blocks with the values given, on one NUMA node, -1 any.
func New(parts []Part, node int) (_ *Vector, err error) {
	if len(parts) == 0 {
		return nil, errors.New("dense: a vector without blocks")
	}
	v := &Vector{node: node}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.Close())
		}
	}()
	stateFloats := 0
	for _, p := range parts {
		n := len(p.Values)
		if err := p.Rule.Validate(); err != nil {
			return nil, err
		}
		if n < 1 || n > MaxFloats {
			return nil, fmt.Errorf("dense: a block of %d floats, must be 1 to %d; cut larger tensors", n, MaxFloats)
		}
		rule := p.Rule.kernel()
		v.blocks = append(v.blocks, block{rule: rule, first: v.floats, n: n})
		v.floats += n
		stateFloats += lines(rule.Kind.StateFloats(n))
	}
	for range 2 {
		if _, err := v.addPlane(); err != nil {
			return nil, err
		}
	}
	v.published = v.planes[0]
	var states []float32
	if stateFloats > 0 {
		if v.states, err = mem.New(mem.Config{Size: 4 * stateFloats, Node: node, Purpose: "dense optimizer state"}); err != nil {
			return nil, fmt.Errorf("dense: state of %d floats for %d blocks: %w", stateFloats, len(parts), err)
		}
		states = mem.Float32s(v.states.Bytes())
	}
	for i, p := range parts {
		b := &v.blocks[i]
		n := b.rule.Kind.StateFloats(b.n)
		b.state, states = states[:n:n], states[lines(n):]
		copy(v.published.Values(i, i+1), p.Values)
		p.Rule.newState(v.published.Values(i, i+1), b.state)
	}
	return v, nil
}

// lines rounds up to whole cache lines of floats: states begin at one.
func lines(floats int) int { return (floats + 15) &^ 15 }

// at is where block i's values begin in a plane.
func (v *Vector) at(i int) int {
	if i == len(v.blocks) {
		return v.floats
	}
	return v.blocks[i].first
}

// Blocks is how many there are.
func (v *Vector) Blocks() int { return len(v.blocks) }

// Version counts what was published since New.
func (v *Vector) Version() uint64 { return v.version }

// Values are block i's published values: to be read until the next Publish, and
// never written.
func (v *Vector) Values(i int) []float32 { return v.published.Values(i, i+1) }

// State is block i's optimizer state, under the same terms.
func (v *Vector) State(i int) []float32 { return v.blocks[i].state }

// Apply updates block i by a gradient (a pushed average for ema). What is
// applied is seen when it is published; until then further Applies go on from
// it. A gradient that is not finite changes nothing and gives refused 1.
func (v *Vector) Apply(i int, grad []float32) (refused int) {
	b := &v.blocks[i]
	if len(grad) != b.n {
		panic(fmt.Sprintf("dense: a gradient of %d floats for a block of %d", len(grad), b.n))
	}
	to, from := v.change().Values(i, i+1), v.Values(i)
	if b.done {
		from = to
	}
	if kernels.UpdateInto(&b.rule, to, from, b.state, grad) != 0 {
		return 1
	}
	b.done = true
	return 0
}

// Load sets block i's values and state, as a checkpoint gives them. They are
// seen when they are published.
func (v *Vector) Load(i int, values, state []float32) error {
	b := &v.blocks[i]
	if len(values) != b.n || len(state) != len(b.state) {
		return fmt.Errorf("dense: %d values and %d floats of state for a block with %d and %d: the model or its optimizer is another one",
			len(values), len(state), b.n, len(b.state))
	}
	copy(v.change().Values(i, i+1), values)
	copy(b.state, state)
	b.done = true
	return nil
}

// change is the plane that takes what is not published yet.
func (v *Vector) change() *Plane {
	if v.next == nil {
		v.next = v.free() // Hold leaves one
	}
	return v.next
}

// Publish makes what was applied or loaded since the last Publish the current
// version, and gives the floats that it had to carry over from the version
// before: those of blocks that nothing changed. Without any change there is no
// new version.
func (v *Vector) Publish() (carried int) {
	next, changed := v.next, false
	v.next = nil
	for i := range v.blocks {
		changed = changed || v.blocks[i].done
	}
	if !changed {
		return 0
	}
	for i := range v.blocks {
		if b := &v.blocks[i]; b.done {
			b.done = false
		} else {
			carried += copy(next.Values(i, i+1), v.Values(i))
		}
	}
	v.published = next
	v.version++
	return carried
}

// Close gives the memory back; nothing may read a plane any more. Closing again
// does nothing.
func (v *Vector) Close() error {
	var errs []error
	for _, p := range v.planes {
		errs = append(errs, p.arena.Close())
	}
	if v.states != nil {
		errs = append(errs, v.states.Close())
	}
	v.planes, v.published, v.next, v.states, v.blocks, v.floats = nil, nil, nil, nil, nil, 0
	return errors.Join(errs...)
}
