package metric

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// MaxSlots bounds the values of a field by which figures are told: each has an
// Accumulator of its own.
const MaxSlots = 64

// Slot is a value of the field by which examples are told apart.
type Slot struct {
	ID   uint64 `json:"id,omitempty"`
	None bool   `json:"none,omitempty"` // the example has no value in that field
}

func (s Slot) String() string {
	if s.None {
		return "none"
	}
	return strconv.FormatUint(s.ID, 10)
}

// Compare orders slots: by id, those without last.
func (s Slot) Compare(o Slot) int {
	if s.None != o.None {
		if s.None {
			return 1
		}
		return -1
	}
	return cmp.Compare(s.ID, o.ID)
}

// Slots counts predictions by the ids of one field. An example with several ids there
// counts for each, once. nil counts nothing. Not safe for concurrent use.
type Slots struct {
	task   string
	field  uint16
	counts map[Slot]*Accumulator
	own    []uint64 // of the example at hand
}

// NewSlots counts for a task by a field.
func NewSlots(task string, field uint16) *Slots {
	return &Slots{task: task, field: field, counts: map[Slot]*Accumulator{}}
}

// Add counts the predictions of examples; example i has the ids keys[offsets[i]:
// offsets[i+1]] of fields likewise.
func (s *Slots) Add(preds, labels []float32, offsets []int32, keys []uint64, fields []uint16) error {
	if s == nil {
		return nil
	}
	for i := range preds {
		s.own = s.own[:0]
		for k := offsets[i]; k < offsets[i+1]; k++ {
			if fields[k] == s.field && !slices.Contains(s.own, keys[k]) {
				s.own = append(s.own, keys[k])
				if err := s.add(Slot{ID: keys[k]}, preds[i], labels[i]); err != nil {
					return err
				}
			}
		}
		if len(s.own) == 0 {
			if err := s.add(Slot{None: true}, preds[i], labels[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Slots) add(slot Slot, pred, label float32) error {
	a := s.counts[slot]
	if a == nil {
		if len(s.counts) == MaxSlots {
			return &TooManySlotsError{Field: s.field}
		}
		a = NewAccumulator(s.task)
		s.counts[slot] = a
	}
	a.Add([]float32{pred}, []float32{label})
	return nil
}

// Slots are those that were met, in order.
func (s *Slots) Slots() []Slot {
	if s == nil {
		return nil
	}
	all := make([]Slot, 0, len(s.counts))
	for slot := range s.counts {
		all = append(all, slot)
	}
	slices.SortFunc(all, Slot.Compare)
	return all
}

// Of is what was counted of a slot.
func (s *Slots) Of(slot Slot) *Accumulator {
	if a := s.counts[slot]; a != nil {
		return a
	}
	return NewAccumulator(s.task)
}

// SlotReport is the figures of one slot. Slot is its value as the file has it; where that
// is another text than the key, which is a hash then, Key is that.
type SlotReport struct {
	Slot string `json:"slot"`
	Key  string `json:"key,omitempty"`
	*Report
}

// NewSlotReport reports a slot whose value is known as name, "" where it is not.
func NewSlotReport(s Slot, name string, r *Report) SlotReport {
	if name == "" || s.None {
		return SlotReport{Slot: s.String(), Report: r}
	}
	return SlotReport{Slot: name, Key: s.String(), Report: r}
}

// TooManySlotsError says that a field has too many values to tell figures by them.
type TooManySlotsError struct{ Field uint16 }

func (e *TooManySlotsError) Error() string {
	return fmt.Sprintf("metric: field %d has more than %d values; figures by slot are for a field of few: name another with --metrics-by, or leave it out", e.Field, MaxSlots)
}
