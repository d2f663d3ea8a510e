package kernels

import "unsafe"

func (r *Rows) row(id uint32, width int) []float32 {
	at := unsafe.Add(unsafe.Pointer(r.Bases[id>>r.Shift]), int(id&(1<<r.Shift-1))*r.Stride*4)
	return unsafe.Slice((*float32)(at), width)
}

func plainGather(dst []float32, step, dim int, rows *Rows, ids []uint32) {
	for i, id := range ids {
		out := dst[i*step : i*step+dim]
		if int(id) >= rows.Count {
			clear(out)
			continue
		}
		copy(out, rows.row(id, dim))
	}
}

func plainUpdate(rule *Rule, dim int, rows *Rows, ids []uint32, grads []float32) (refused int) {
	for i, id := range ids {
		g := grads[i*dim : (i+1)*dim]
		if int(id) >= rows.Count || !finite(g) {
			refused++
			continue
		}
		row := rows.row(id, dim+rule.Kind.StateFloats(dim))
		plainRow(rule, row[:dim], row[:dim], row[dim:], g)
	}
	return refused
}
