package dram

import (
	"errors"
	"strings"
	"testing"
)

// Tables with one budget have together what it says, whichever comes first, and
// one that is closed leaves its share to the others.
func TestSharedBudget(t *testing.T) {
	const limit = 16 << 20
	b := NewBudget(limit)
	keys, rows := make([]uint64, 1<<17), make([]uint32, 1<<17)
	for i := range keys {
		keys[i] = uint64(i)
	}
	first := open(t, testSpec(16), 1, Config{Node: -1, Budget: b})
	if _, err := first.Lookup(keys[:1<<14], rows, true); err != nil {
		t.Fatal(err)
	}
	later := open(t, testSpec(32), 1, Config{Node: -1, Budget: b})
	made, err := later.Lookup(keys, rows, true)
	if !errors.Is(err, ErrBudget) || made == 0 {
		t.Fatalf("%d rows made, error %v", made, err)
	}
	if want := "have 16777216 of 16777216"; !strings.Contains(err.Error(), want) {
		t.Errorf("the error does not say %q: %v", want, err)
	}
	if sum := first.Stats().Reserved + later.Stats().Reserved; sum > limit || sum != b.Taken() {
		t.Errorf("tables have %d bytes, the budget counts %d of %d", sum, b.Taken(), limit)
	}
	if err := later.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Lookup(keys[:1<<15], rows, true); err != nil {
		t.Errorf("with another table's share: %v", err)
	}
	if err := first.Close(); err != nil || b.Taken() != 0 {
		t.Errorf("%v; closed tables have %d bytes", err, b.Taken())
	}
}
