package dram

import (
	"testing"

	"psrt/tiers/table"
)

// Rows that arrive in the order of another table's index, as they do when a
// saved model is loaded, would make insertion quadratic if both tables hashed
// alike. So tables with the same rows must not have the same order.
func TestTablesHashEachItsOwnWay(t *testing.T) {
	spec := table.Spec{Name: "t", ID: 1, Dim: 1, Optimizer: table.Optimizer{Kind: table.SGD}.WithDefaults()}
	const n = 100_000
	keys, rows := make([]uint64, n), make([]uint32, n)
	for i := range keys {
		keys[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	order := func(t2 *Table) (out []uint64) {
		t2.Range(func(key uint64, _ []float32) bool {
			out = append(out, key)
			return true
		})
		return out
	}
	var tables [2]*Table
	for i := range tables {
		var err error
		if tables[i], err = New(spec, 7, Config{Node: -1}); err != nil {
			t.Fatal(err)
		}
		defer tables[i].Close()
		if _, err := tables[i].Lookup(keys, rows, true); err != nil {
			t.Fatal(err)
		}
	}
	a, b := order(tables[0]), order(tables[1])
	same := 0
	for i := range a {
		if a[i] == b[i] {
			same++
		}
	}
	if len(a) != n || len(b) != n || same > n/100 {
		t.Fatalf("%d and %d of %d rows, %d at the same place", len(a), len(b), n, same)
	}
	if tables[0].Digest() != tables[1].Digest() {
		t.Fatal("the digest depends on the order")
	}
}
