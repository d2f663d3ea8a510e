package hbmtest

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"psrt/csrc/probe"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm"
	"psrt/tiers/table"
)

// ErrFailed is a device that was made to fail.
var ErrFailed = errors.New("hbmtest: the device has failed")

// Late is the host twin, with every call as late as its fence allows.
type Late struct {
	// FailAfter calls the device fails; 0: never.
	FailAfter int
	// Failure is how, nil: ErrFailed.
	Failure error
	now     bool
}

// FailNow has the next call fail.
func (l *Late) FailNow() { l.now = true }

// Name says what it is.
func (l *Late) Name() string { return "a late device" }

// Slots is the twin's.
func (l *Late) Slots(spec *table.Spec, bytes int64, batchRows int) int {
	return hbm.Host{}.Slots(spec, bytes, batchRows)
}

// Open opens the twin.
func (l *Late) Open(acc *accessor.Accessor, index *probe.Bounded, rows, batchRows int) (hbm.Arena, error) {
	a, err := hbm.Host{Node: -1}.Open(acc, index, rows, batchRows)
	return &lateArena{device: l, twin: a, index: index, fail: l.FailAfter}, err
}

type lateArena struct {
	device *Late
	twin   hbm.Arena
	index  *probe.Bounded
	queue  []func()
	done   hbm.Fence
	fail   int
}

func (a *lateArena) later(f func()) hbm.Fence {
	a.queue = append(a.queue, f)
	return a.done + hbm.Fence(len(a.queue))
}

func spoil(dst []float32) {
	for i := range dst {
		dst[i] = float32(math.Inf(-1))
	}
}

func (a *lateArena) Buffer(floats int) ([]float32, error) { return a.twin.Buffer(floats) }

// Lists of slots are taken at once: they are few, and a device would have them in
// its queue.
func (a *lateArena) CopyIn(slots []uint32, rows []float32) hbm.Fence {
	slots = slices.Clone(slots)
	return a.later(func() { a.twin.CopyIn(slots, rows) })
}

func (a *lateArena) CopyOut(slots []uint32, rows []float32) hbm.Fence {
	slots = slices.Clone(slots)
	spoil(rows)
	return a.later(func() { a.twin.CopyOut(slots, rows) })
}

func (a *lateArena) Gather(slots []uint32, dst []float32, step int) hbm.Fence {
	slots = slices.Clone(slots)
	spoil(dst)
	return a.later(func() { a.twin.Gather(slots, dst, step) })
}

// Find finds at once, by the index as it is, and says what it found late.
func (a *lateArena) Find(keys []uint64, slots []uint32, dst []float32, step int) hbm.Fence {
	found := make([]uint32, len(keys))
	a.index.Find(keys, found)
	for i := range keys {
		slots[i] = 0
	}
	spoil(dst)
	return a.later(func() {
		copy(slots, found)
		a.twin.Gather(found, dst, step)
	})
}

func (a *lateArena) Update(slots []uint32, grads []float32, refused *int) hbm.Fence {
	slots, *refused = slices.Clone(slots), -1
	return a.later(func() { a.twin.Update(slots, grads, refused) })
}

func (a *lateArena) Wait(f hbm.Fence) error {
	for a.done < f {
		if a.done++; a.fail > 0 && int(a.done) >= a.fail || a.device.now {
			return cmp.Or(a.device.Failure, ErrFailed)
		}
		a.queue[0]()
		a.queue = a.queue[1:]
	}
	return nil
}

func (a *lateArena) Bytes() int64 { return a.twin.Bytes() }

func (a *lateArena) Close() error { return a.twin.Close() }
