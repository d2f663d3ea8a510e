package metric

import (
	"errors"
	"reflect"
	"testing"

	"psrt/csrc/seedtest"
)

// TestSlots: what is counted of a slot is what an accumulator of the examples that have
// the slot counts; an example with several counts for each, once.
func TestSlots(t *testing.T) {
	r := seedtest.Rand(t)
	s := NewSlots(CTR, 2)
	want := map[string]*Accumulator{}
	count := func(slot string, pred, label float32) {
		if want[slot] == nil {
			want[slot] = NewAccumulator(CTR)
		}
		want[slot].Add([]float32{pred}, []float32{label})
	}
	for range 500 {
		pred, label := r.Float32(), float32(r.IntN(2))
		keys, fields := []uint64{7, 5}, []uint16{1, 3} // of other fields
		switch r.IntN(4) {
		case 0:
			count("none", pred, label)
		case 1:
			keys, fields = append(keys, 5, 9, 5), append(fields, 2, 2, 2)
			count("5", pred, label)
			count("9", pred, label)
		default:
			keys, fields = append(keys, 11), append(fields, 2)
			count("11", pred, label)
		}
		if err := s.Add([]float32{pred}, []float32{label}, []int32{0, int32(len(keys))}, keys, fields); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, slot := range s.Slots() {
		got = append(got, slot.String())
		if !reflect.DeepEqual(s.Of(slot).Report(), want[slot.String()].Report()) {
			t.Errorf("slot %v: %+v, want %+v", slot, s.Of(slot).Report(), want[slot.String()].Report())
		}
	}
	if !reflect.DeepEqual(got, []string{"5", "9", "11", "none"}) {
		t.Errorf("slots %v", got)
	}
	if n := s.Of(Slot{ID: 12345}).Report().Examples; n != 0 {
		t.Errorf("%d examples of a slot that was not met", n)
	}
	var err error
	for id := uint64(100); err == nil && id < 1000; id++ {
		err = s.Add([]float32{.5}, []float32{1}, []int32{0, 1}, []uint64{id}, []uint16{2})
	}
	if many := (*TooManySlotsError)(nil); !errors.As(err, &many) || len(s.Slots()) != MaxSlots {
		t.Errorf("%d slots: %v", len(s.Slots()), err)
	}
}
