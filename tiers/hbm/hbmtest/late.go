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

// Late is the host twin, with every call as late as its fence allows: that of another
// only where that wants it, as copies of rows and what works on them go beside each other.
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
	queue  []*lateCall // of both lanes, in the order in which they were made
	made   hbm.Fence
	done   int // calls
	fail   int
}

// lateCall is one that has not been done.
type lateCall struct {
	fence hbm.Fence
	moves bool // of the lane that copies rows
	slots []uint32
	do    func()
}

func (a *lateArena) later(moves bool, slots []uint32, f func()) hbm.Fence {
	a.made++
	a.queue = append(a.queue, &lateCall{a.made, moves, slots, f})
	return a.made
}

// needs says whether a call is done behind an earlier one.
func (c *lateCall) needs(before *lateCall) bool {
	return c.moves == before.moves || slices.ContainsFunc(c.slots, func(s uint32) bool { return slices.Contains(before.slots, s) })
}

// run does a call, and what it needs before.
func (a *lateArena) run(c *lateCall) error {
	for i := 0; a.queue[i] != c; {
		if !c.needs(a.queue[i]) {
			i++
			continue
		}
		if err := a.run(a.queue[i]); err != nil {
			return err
		}
		i = 0
	}
	if a.done++; a.fail > 0 && a.done >= a.fail || a.device.now {
		return cmp.Or(a.device.Failure, ErrFailed)
	}
	c.do()
	a.queue = slices.DeleteFunc(a.queue, func(o *lateCall) bool { return o == c })
	return nil
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
	return a.later(true, slots, func() { a.twin.CopyIn(slots, rows) })
}

func (a *lateArena) CopyOut(slots []uint32, rows []float32) hbm.Fence {
	slots = slices.Clone(slots)
	spoil(rows)
	return a.later(true, slots, func() { a.twin.CopyOut(slots, rows) })
}

func (a *lateArena) Gather(slots []uint32, dst []float32, step int) hbm.Fence {
	slots = slices.Clone(slots)
	spoil(dst)
	return a.later(false, slots, func() { a.twin.Gather(slots, dst, step) })
}

// Find finds at once, by the index as it is, and says what it found late.
func (a *lateArena) Find(keys []uint64, slots []uint32, dst []float32, step int) hbm.Fence {
	found := make([]uint32, len(keys))
	a.index.Find(keys, found)
	for i := range keys {
		slots[i] = 0
	}
	spoil(dst)
	return a.later(false, found, func() {
		copy(slots, found)
		a.twin.Gather(found, dst, step)
	})
}

func (a *lateArena) Update(slots []uint32, grads []float32, refused *int) hbm.Fence {
	slots, *refused = slices.Clone(slots), -1
	return a.later(false, slots, func() { a.twin.Update(slots, grads, refused) })
}

func (a *lateArena) Wait(f hbm.Fence) error {
	for _, c := range a.queue {
		if c.fence == f {
			return a.run(c)
		}
	}
	return nil
}

func (a *lateArena) Times() hbm.Times { return a.twin.Times() }

func (a *lateArena) HostBytes() int64 { return a.twin.HostBytes() }

func (a *lateArena) Bytes() int64 { return a.twin.Bytes() }

func (a *lateArena) Close() error { return a.twin.Close() }
