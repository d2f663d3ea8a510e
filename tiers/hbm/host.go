package hbm

import (
	"math/bits"
	"time"

	"psrt/csrc/kernels"
	"psrt/csrc/probe"
	"psrt/rdma/mem"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// Host is the twin of a GPU in the host's memory. It works on rows at once, in the
// caller's thread, with the kernels that all rows in memory are worked on by.
type Host struct {
	Node int // NUMA node, -1 for any
}

// Name says that it is no GPU.
func (h Host) Name() string { return "the host twin of GPU memory" }

// Slots says that the twin works where rows lie.
func (h Host) Slots(spec *table.Spec, bytes int64, _ int) int {
	return int(min(bytes/int64(spec.RowBytes()), table.MaxRows))
}

// Open takes the memory.
func (h Host) Open(acc *accessor.Accessor, index *probe.Bounded, rows, _ int) (Arena, error) {
	stride := acc.RowFloats()
	m, err := mem.New(mem.Config{Size: 4 * stride * rows, Node: h.Node, Purpose: "rows of coming batches"})
	if err != nil {
		return nil, err
	}
	all := mem.Float32s(m.Bytes())
	return &hostArena{mem: m, acc: acc, index: index, all: all, size: 4 * stride * rows,
		rows: kernels.Rows{Bases: []*float32{&all[0]}, Shift: uint(bits.Len(uint(rows))), Stride: stride, Count: rows}}, nil
}

type hostArena struct {
	mem     *mem.Arena
	buffers []*mem.Arena
	acc     *accessor.Accessor
	index   *probe.Bounded
	all     []float32
	rows    kernels.Rows
	size    int
	times   Times
}

func (a *hostArena) Buffer(floats int) ([]float32, error) {
	m, err := mem.New(mem.Config{Size: 4 * floats, Node: a.mem.NUMANode(), Purpose: "rows on their way"})
	if err != nil {
		return nil, err
	}
	a.buffers = append(a.buffers, m)
	return mem.Float32s(m.Bytes())[:floats], nil
}

func (a *hostArena) row(slot uint32) []float32 {
	at := int(slot) * a.rows.Stride
	return a.all[at : at+a.rows.Stride]
}

func (a *hostArena) Times() Times { return a.times }

// since adds the time since begin.
func since(begin time.Time, to *time.Duration) { *to += time.Since(begin) }

func (a *hostArena) CopyIn(slots []uint32, rows []float32) Fence {
	defer since(time.Now(), &a.times.In)
	for i, s := range slots {
		copy(a.row(s), rows[i*a.rows.Stride:(i+1)*a.rows.Stride])
	}
	return 0
}

func (a *hostArena) CopyOut(slots []uint32, rows []float32) Fence {
	defer since(time.Now(), &a.times.Out)
	for i, s := range slots {
		copy(rows[i*a.rows.Stride:(i+1)*a.rows.Stride], a.row(s))
	}
	return 0
}

func (a *hostArena) Gather(slots []uint32, dst []float32, step int) Fence {
	defer since(time.Now(), &a.times.Kernels)
	a.acc.GatherInto(&a.rows, slots, dst, step)
	return 0
}

func (a *hostArena) Find(keys []uint64, slots []uint32, dst []float32, step int) Fence {
	a.index.Find(keys, slots)
	return a.Gather(slots[:len(keys)], dst, step)
}

func (a *hostArena) Update(slots []uint32, grads []float32, refused *int) Fence {
	defer since(time.Now(), &a.times.Kernels)
	*refused = a.acc.Update(&a.rows, slots, grads)
	return 0
}

func (a *hostArena) Wait(Fence) error { return nil }

func (a *hostArena) Bytes() int64 { return int64(a.size) }

func (a *hostArena) HostBytes() int64 { return 0 }

func (a *hostArena) Close() error {
	for _, m := range a.buffers {
		if err := m.Close(); err != nil {
			return err
		}
	}
	a.buffers = nil
	return a.mem.Close()
}
