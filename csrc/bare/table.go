package bare

import "fmt"

// NoRow is the number of the row of a key that has none, as in package table.
const NoRow = ^uint32(0)

// Slot is one place of the index.
type Slot struct {
	Key  uint64
	Row  uint32
	zero uint32
}

// SlotBytes is the size of a Slot.
const SlotBytes = 16

// Table is rows that are found by keys. Key number i, counted from 0, is
// (First + i) times the odd number whose inverse modulo 2^64 is Inverse; none
// is 0, which is the key of an empty slot.
//
// The memory behind Slots and Rows is not Go heap: C walks it.
type Table struct {
	Slots   []Slot
	Rows    []float32 // len(Slots) x Stride
	Stride  int       // floats of a row
	First   uint64
	Inverse uint64
	next    int // rows there are
}

// InverseOf is the inverse of an odd number modulo 2^64, by Newton.
func InverseOf(odd uint64) uint64 {
	y := odd
	for range 6 {
		y *= 2 - odd*y
	}
	return y
}

// Len is the number of rows there are.
func (t *Table) Len() int { return t.next }

func (t *Table) check(batch, floats, want int) {
	if len(t.Slots) == 0 || len(t.Slots) >= int(NoRow) || t.Stride < 1 || len(t.Rows) < len(t.Slots)*t.Stride || floats < want {
		panic(fmt.Sprintf("bare: %d rows of %d floats in %d, %d of a batch with %d of %d floats",
			len(t.Slots), t.Stride, len(t.Rows), batch, floats, want))
	}
}

// Find writes the number of each key's row to ids, NoRow where there is none.
func (t *Table) Find(keys []uint64, ids []uint32) {
	t.check(len(keys), len(ids), len(keys))
	t.find(keys, ids)
}

// Pull finds keys and copies the first dim floats of their rows to dst,
// len(keys) x dim, zeros where there is none.
func (t *Table) Pull(keys []uint64, dim int, dst []float32) {
	t.check(len(keys), len(dst), len(keys)*dim)
	if dim < 1 || dim > t.Stride {
		panic(fmt.Sprintf("bare: pull of %d floats from rows of %d", dim, t.Stride))
	}
	t.pull(best(), keys, dim, dst)
}

// Update takes rate x gradient from every float of the rows of ids, the
// gradient of dim floats repeated over the row. A number that is no row is left
// out.
func (t *Table) Update(ids []uint32, dim int, grads []float32, rate float32) {
	t.check(len(ids), len(grads), len(ids)*dim)
	if dim < 1 || dim > t.Stride {
		panic(fmt.Sprintf("bare: update with %d floats of rows of %d", dim, t.Stride))
	}
	t.update(best(), ids, dim, grads, rate)
}

// Insert gives each key the next row, with the floats of values,
// len(keys) x Stride. The keys are new and the table's own.
func (t *Table) Insert(keys []uint64, values []float32) {
	t.check(len(keys), len(values), len(keys)*t.Stride)
	if t.next+len(keys) > len(t.Slots) {
		panic(fmt.Sprintf("bare: %d keys for %d rows of which %d are taken", len(keys), len(t.Slots), t.next))
	}
	t.insert(best(), keys, values)
	t.next += len(keys)
}
