package kernels

// operands are the sources of one row while it is merged. own[i] is memory that
// source i may be changed in; a source that was not changed lies where it came
// from.
type operands struct {
	x, own [][]float32
}

func newOperands(n, dim int) *operands {
	o := &operands{x: make([][]float32, n), own: make([][]float32, n)}
	buf := make([]float32, n*dim)
	for i := range o.own {
		o.own[i] = buf[i*dim : (i+1)*dim]
	}
	return o
}

func (o *operands) merge(merges []Merge) {
	for _, m := range merges {
		a, b := o.x[m.Dst], o.x[m.Src]
		if b == nil {
			continue
		}
		out := o.own[m.Dst][:len(b)]
		if a == nil {
			copy(out, b)
		} else {
			for i := range out {
				out[i] = a[i] + b[i]
			}
		}
		o.x[m.Dst] = out
	}
}

func (o *operands) result(dst []float32) {
	if len(o.x) == 0 || o.x[0] == nil {
		clear(dst)
		return
	}
	copy(dst, o.x[0])
}

func plainSumRows(dst []float32, dim, rows int, srcs [][]float32, idx [][]int32, merges []Merge) (bad int) {
	o := newOperands(len(srcs), dim)
	for u := range rows {
		for i, s := range srcs {
			o.x[i] = nil
			if r := int(idx[i][u]); r >= 0 {
				if (r+1)*dim > len(s) {
					return i
				}
				o.x[i] = s[r*dim : (r+1)*dim]
			}
		}
		o.merge(merges)
		o.result(dst[u*dim : (u+1)*dim])
	}
	return -1
}

func plainSum(dst []float32, srcs [][]float32, merges []Merge) {
	const tile = 1024
	o := newOperands(len(srcs), min(tile, len(dst)))
	for at := 0; at < len(dst); at += tile {
		end := min(at+tile, len(dst))
		for i, s := range srcs {
			o.x[i] = nil
			if s != nil {
				o.x[i] = s[at:end]
			}
		}
		o.merge(merges)
		o.result(dst[at:end])
	}
}

func plainAdd(dst []float32, srcs [][]float32) {
	copy(dst, srcs[0])
	for _, s := range srcs[1:] {
		for i := range dst {
			dst[i] += s[i]
		}
	}
}

func plainScan(src []float32) (sum float32) {
	for _, x := range src {
		sum += x
	}
	return sum
}
