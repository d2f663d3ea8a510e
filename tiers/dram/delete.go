package dram

import "psrt/csrc/probe"

// Delete forgets a row. Its number goes to a later row: whoever holds numbers
// from earlier lookups must not use this one any more.
func (t *Table) Delete(key uint64) bool {
	if t.closed {
		return false
	}
	var id [1]uint32
	keys := [1]uint64{key}
	if t.index.Find(keys[:], id[:]); id[0] == probe.NoRow {
		return false
	}
	t.acc.Bury(key, t.row(id[0]))
	t.index.Delete(keys[:])
	t.free = append(t.free, id[0])
	return true
}

// reuse makes as many of the absent keys as there are numbers of deleted rows.
func (t *Table) reuse(keys []uint64) (created int, err error) {
	var id [1]uint32
	for i := range keys {
		if len(t.free) == 0 {
			return created, nil
		}
		key := keys[i : i+1]
		if t.index.Find(key, id[:]); id[0] != probe.NoRow {
			continue
		}
		id[0] = t.free[len(t.free)-1]
		if _, err := t.index.Set(key, id[:]); err != nil {
			return created, err
		}
		t.free = t.free[:len(t.free)-1]
		t.acc.Born(key[0], t.row(id[0]))
		t.acc.Begin(&t.rows, int(id[0]), key)
		if t.born != nil {
			t.born(key[0], id[0])
		}
		created++
	}
	return created, nil
}
