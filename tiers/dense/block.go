package dense

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"psrt/csrc/kernels"
	"psrt/rdma/mem"
)

// MaxFloats bounds a block.
const MaxFloats = 1 << 28

// Block is one range of a dense tensor. All methods but Read and Version are
// for its one owner.
type Block struct {
	rule    kernels.Rule
	arena   *mem.Arena
	buffers [2][]float32
	work    []float32 // values, then the optimizer's state
	rows    kernels.Rows
	n       int
	// version counts updates; buffers[version%2] is the published one.
	version atomic.Uint64
	readers [2]atomic.Int32
}

// New makes a block with the given values, on any NUMA node.
func New(rule Rule, values []float32) (*Block, error) { return NewOnNode(rule, values, -1) }

// NewOnNode is New with the memory on one NUMA node.
func NewOnNode(rule Rule, values []float32, node int) (*Block, error) {
	if err := rule.Validate(); err != nil {
		return nil, err
	}
	n := len(values)
	if n < 1 || n > MaxFloats {
		return nil, fmt.Errorf("dense: a block of %d floats, must be 1 to %d; cut larger tensors", n, MaxFloats)
	}
	b := &Block{rule: rule.kernel(), n: n}
	padded := (n + 15) &^ 15 // pieces begin at cache lines
	row := n + b.rule.Kind.StateFloats(n)
	arena, err := mem.New(mem.Config{Size: 4 * (2*padded + row), Node: node, Purpose: "dense block"})
	if err != nil {
		return nil, fmt.Errorf("dense: a block of %d floats: %w", n, err)
	}
	b.arena = arena
	all := mem.Float32s(arena.Bytes())
	b.buffers[0], b.buffers[1], b.work = all[:n:n], all[padded:padded+n:padded+n], all[2*padded:2*padded+row]
	b.rows = kernels.Rows{Bases: []*float32{&b.work[0]}, Stride: row, Count: 1}
	copy(b.work, values)
	copy(b.buffers[0], values)
	rule.newState(b.work[:n], b.work[n:])
	return b, nil
}

// Len is the number of values.
func (b *Block) Len() int { return b.n }

// Version counts the updates so far. Safe for concurrent use.
func (b *Block) Version() uint64 { return b.version.Load() }

// Values are the published values: to be read until the owner's next Apply or
// Load, and never written.
func (b *Block) Values() []float32 { return b.buffers[b.version.Load()%2] }

// State is the optimizer's state, under the same terms.
func (b *Block) State() []float32 { return b.work[b.n:] }

// Apply updates the values by a gradient (a pushed average for ema) of Len
// floats and publishes them. A gradient that is not finite changes nothing and
// gives refused 1.
func (b *Block) Apply(grad []float32) (refused int) {
	if len(grad) != b.n {
		panic(fmt.Sprintf("dense: a gradient of %d floats for a block of %d", len(grad), b.n))
	}
	if kernels.Update(&b.rule, b.n, &b.rows, []uint32{0}, grad) != 0 {
		return 1
	}
	b.publish()
	return 0
}

// Load sets values and state, as a checkpoint gives them, and publishes them.
func (b *Block) Load(values, state []float32) error {
	if len(values) != b.n || len(state) != len(b.State()) {
		return fmt.Errorf("dense: %d values and %d floats of state for a block with %d and %d: the model or its optimizer is another one",
			len(values), len(state), b.n, len(b.State()))
	}
	copy(b.work, values)
	copy(b.work[b.n:], state)
	b.publish()
	return nil
}

func (b *Block) publish() {
	next := b.version.Load() + 1
	for b.readers[next%2].Load() != 0 {
		runtime.Gosched() // the last reader of two versions ago is still copying
	}
	copy(b.buffers[next%2], b.work)
	b.version.Store(next)
}

// Read copies the published values to dst and tells their version. Safe for
// concurrent use with everything but Close.
func (b *Block) Read(dst []float32) uint64 {
	for {
		v := b.version.Load()
		r := &b.readers[v%2]
		r.Add(1)
		if b.version.Load() == v { // announced before the owner could turn to this buffer
			copy(dst, b.buffers[v%2])
			r.Add(-1)
			return v
		}
		r.Add(-1)
	}
}

// Close gives the memory back. Closing again does nothing.
func (b *Block) Close() error {
	if b.arena == nil {
		return nil
	}
	err := b.arena.Close()
	b.arena, b.work, b.buffers = nil, nil, [2][]float32{}
	return err
}
