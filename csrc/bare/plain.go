package bare

// The loops in Go, without prefetch: level 0.

func (t *Table) slot(key uint64) *Slot {
	at := key*t.Inverse - t.First
	if at >= uint64(len(t.Slots)) {
		at = 0
	}
	return &t.Slots[at]
}

func (t *Table) plainFind(keys []uint64, ids []uint32) {
	for i, k := range keys {
		ids[i] = NoRow
		if s := t.slot(k); s.Key == k {
			ids[i] = s.Row
		}
	}
}

func (t *Table) plainPull(keys []uint64, dim int, dst []float32) {
	for i, k := range keys {
		out := dst[i*dim : (i+1)*dim]
		if s := t.slot(k); s.Key == k {
			copy(out, t.Rows[int(s.Row)*t.Stride:])
		} else {
			clear(out)
		}
	}
}

func (t *Table) plainUpdate(ids []uint32, dim int, grads []float32, rate float32) {
	for i, id := range ids {
		if int(id) >= len(t.Slots) {
			continue
		}
		row, g := t.Rows[int(id)*t.Stride:][:t.Stride], grads[i*dim:][:dim]
		for at := range row {
			row[at] -= float32(rate * g[at%dim])
		}
	}
}

func (t *Table) plainInsert(keys []uint64, values []float32) {
	for i, k := range keys {
		*t.slot(k) = Slot{Key: k, Row: uint32(t.next + i)}
		copy(t.Rows[(t.next+i)*t.Stride:][:t.Stride], values[i*t.Stride:])
	}
}
