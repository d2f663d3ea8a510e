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

// What MayMake says there is room for can be made, of several tables with one budget,
// too, and it does not say no long before there is none.
func TestMayMake(t *testing.T) {
	const batch = 1000
	keys, rows := make([]uint64, batch), make([]uint32, batch)
	for _, dim := range []int{1, 16, 100} {
		for _, bytes := range []int64{4 << 20, 9<<20 + 1000, 40 << 20} {
			b := NewBudget(2 * bytes)
			for range 2 {
				tab := open(t, testSpec(dim), 1, Config{Node: -1, MaxBytes: bytes + bytes/2, Budget: b})
				enough := 0
				for n := 0; ; n += batch {
					for i := range keys {
						keys[i] = uint64(n + i)
					}
					may := tab.MayMake(batch)
					if _, err := tab.Lookup(keys, rows, true); err != nil {
						if may || enough < n/2 {
							t.Errorf("dim %d in %d bytes: no room after %d rows (room was said: %v), and none was said after %d", dim, bytes, n, may, enough)
						}
						break
					}
					if may {
						enough = n + batch
					}
				}
			}
		}
	}
	if !open(t, testSpec(16), 1, Config{Node: -1}).MayMake(1 << 20) {
		t.Error("a table without a bound has no room")
	}
}
