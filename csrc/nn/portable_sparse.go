package nn

// The pure Go form of the kernels: all there is without cgo, and what the C
// forms are compared with, bit by bit. Every product that is added somewhere
// is converted first, which keeps Go from fusing the two on any CPU.

const lanes = 16

func reduce(lane *[lanes]float32) float32 {
	for width := lanes / 2; width > 0; width /= 2 {
		for l := range width {
			lane[l] += lane[l+width]
		}
	}
	return lane[0]
}

// embedding is where a row's embedding begins.
func (p Parts) embedding() int { return int(p & Linear) }

func portableForward(x *Sparse, bias float32, z, s, x0 []float32) {
	width := x.Fields * x.Dim
	for i := range x.Len() {
		linear, square := float32(0), [lanes]float32{}
		var sum, pool []float32
		if x.Parts&FM != 0 {
			sum = s[i*x.Dim : (i+1)*x.Dim]
			clear(sum)
		}
		if x.Parts&Pool != 0 {
			pool = x0[i*width : (i+1)*width]
			clear(pool)
		}
		for j := x.Offsets[i]; j < x.Offsets[i+1]; j++ {
			row, value := x.row(x.Uniq[x.Occ[j]]), x.Values[j]
			if x.Parts&Linear != 0 {
				linear += float32(row[0] * value)
			}
			row = row[x.Parts.embedding():]
			for k := range sum {
				t := row[k] * value
				sum[k] += t
				square[k%lanes] += float32(t * t)
			}
			if pool != nil {
				p := pool[int(x.Field[j])*x.Dim:][:x.Dim]
				for k := range p {
					p[k] += float32(row[k] * value)
				}
			}
		}
		z[i] = bias + linear
		if x.Parts&FM != 0 {
			z[i] += secondOrder(sum, &square)
		}
	}
}

func secondOrder(sum []float32, square *[lanes]float32) float32 {
	total := [lanes]float32{}
	for k, t := range sum {
		total[k%lanes] += float32(t * t)
	}
	for l := range total {
		total[l] -= square[l]
	}
	return float32(0.5 * reduce(&total))
}

func portableBackward(x *Sparse, g, s, dx0, rows []float32) {
	clear(rows)
	width := x.Fields * x.Dim
	for i := range x.Len() {
		for j := x.Offsets[i]; j < x.Offsets[i+1]; j++ {
			row, value := x.row(x.Uniq[x.Occ[j]]), x.Values[j]
			grad := rows[int(x.Occ[j])*x.RowDim:][:x.RowDim]
			gx := g[i] * value
			if x.Parts&Linear != 0 {
				grad[0] += gx
			}
			row, grad = row[x.Parts.embedding():], grad[x.Parts.embedding():]
			for k := range x.dimRead() {
				var d float32
				if x.Parts&FM != 0 {
					d = float32(gx * (s[i*x.Dim+k] - float32(row[k]*value)))
				}
				if x.Parts&Pool != 0 {
					pooled := float32(value * dx0[i*width+int(x.Field[j])*x.Dim+k])
					if x.Parts&FM != 0 {
						pooled = d + pooled
					}
					d = pooled
				}
				grad[k] += d
			}
		}
	}
}

func (x *Sparse) row(r int32) []float32 { return x.Matrix[int(r)*x.RowDim:][:x.RowDim] }

// dimRead is how much of the embedding the parts read.
func (x *Sparse) dimRead() int {
	if x.Parts&(FM|Pool) == 0 {
		return 0
	}
	return x.Dim
}
