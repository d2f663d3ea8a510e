package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"psrt/sched/dataset"
	"psrt/sched/train/metric"
)

// newSlots counts by the field that the job names, nil where it names none.
func (w *worker) newSlots() *metric.Slots {
	if w.job.MetricsBy == nil {
		return nil
	}
	return metric.NewSlots(w.job.Model.Task, *w.job.MetricsBy)
}

// newNames notes what the keys of that field stand for.
func (j *Job) newNames() *dataset.Names {
	if j.MetricsBy == nil {
		return nil
	}
	return dataset.NewNames(*j.MetricsBy, metric.MaxSlots)
}

// namedSlot is a slot that a worker has met, and its value where the worker knows that.
type namedSlot struct {
	metric.Slot
	Name string `json:"name,omitempty"`
}

// CountSlots counts a leaf's predictions.
func CountSlots(s *metric.Slots, preds []float32, b *dataset.Batch) error {
	err := s.Add(preds, b.Labels, b.Offsets, b.Keys, b.Fields)
	if many := (*metric.TooManySlotsError)(nil); errors.As(err, &many) {
		return &InputError{err}
	}
	return err
}

// slotReports brings the workers' counts by slot together, and lets go of them. Each
// slot is a gathering of its own: all of them may be more than a value at the
// coordinator can be.
func (w *worker) slotReports(ctx context.Context, name string) (out []metric.SlotReport, err error) {
	mine := w.slots
	if w.slots = w.newSlots(); mine == nil {
		return nil, nil
	}
	var met []namedSlot
	for _, slot := range mine.Slots() {
		met = append(met, namedSlot{slot, w.names.Of(slot.ID)})
	}
	lists, err := gather(ctx, w, slotsName(name), met)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b namedSlot) int { // those with a name first
		return cmp.Or(a.Compare(b.Slot), -cmp.Compare(a.Name, b.Name))
	})
	all = slices.CompactFunc(all, func(a, b namedSlot) bool { return a.Slot == b.Slot })
	if len(all) > metric.MaxSlots {
		return nil, &InputError{&metric.TooManySlotsError{Field: *w.job.MetricsBy}}
	}
	for i, slot := range all {
		parts, err := gather(ctx, w, slotName(name, i), mine.Of(slot.Slot))
		if err != nil {
			return nil, err
		}
		total := metric.NewAccumulator(w.job.Model.Task)
		for _, p := range parts {
			if err := total.Merge(p); err != nil {
				return nil, err
			}
		}
		out = append(out, metric.NewSlotReport(slot.Slot, slot.Name, total.Report()))
	}
	return out, nil
}

func slotsName(name string) string       { return name + "-slots" }
func slotName(name string, i int) string { return fmt.Sprintf("%s-slot-%d", name, i) }

// slotNames are the gatherings of slots beside one.
func (j *Job) slotNames(name string) (all []string) {
	if j.MetricsBy == nil {
		return nil
	}
	all = append(all, slotsName(name))
	for i := range metric.MaxSlots {
		all = append(all, slotName(name, i))
	}
	return all
}
