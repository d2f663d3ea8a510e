package nn

import "math"

// mix is splitmix64's step.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// kept says whether a unit survives dropout in the row whose stream this is.
func kept(stream uint64, unit int, drop uint32) bool {
	h := uint32(unit)*0x9e3779b1 ^ uint32(stream)
	h = (h ^ h>>16) * 0x85ebca6b
	h = ((h ^ h>>13) + uint32(stream>>32)) * 0xc2b2ae35
	h ^= h >> 16
	return h>>8 >= drop
}

func portableActivate(n, units int, a, scale, shift []float32, mask Mask) {
	for i := range n {
		row := a[i*units:][:units]
		for j, v := range row {
			if scale != nil {
				v = float32(v * scale[j])
			}
			v += shift[j]
			if v < 0 {
				v = 0
			}
			row[j] = v
		}
		if mask.drop() == 0 {
			continue
		}
		stream := mix(mask.Key + mask.FirstRow + uint64(i))
		for j := range row {
			if kept(stream, j, mask.drop()) {
				row[j] *= mask.inverseKeep()
			} else {
				row[j] *= 0
			}
		}
	}
}

func portableActivateBack(n, units int, a, d, db []float32, inverseKeep float32) {
	clear(db)
	for i := range n {
		for j := range units {
			at := i*units + j
			if a[at] > 0 {
				d[at] *= inverseKeep
			} else {
				d[at] = 0
			}
			db[j] += d[at]
		}
	}
}

func portableNormalize(n, units int, z, mean, variance, inverse []float32) {
	share := 1 / float32(n)
	for j := range units {
		var sum, squares float32
		for i := range n {
			sum += z[i*units+j]
		}
		mean[j] = sum * share
		for i := range n {
			d := z[i*units+j] - mean[j]
			squares += float32(d * d)
		}
		variance[j] = squares * share
		inverse[j] = 1 / float32(math.Sqrt(float64(variance[j]+NormEps)))
		for i := range n {
			z[i*units+j] = (z[i*units+j] - mean[j]) * inverse[j]
		}
	}
}

func portableNormalizeBack(n, units int, normalized, gamma, inverse, d, dgamma, dbeta []float32) {
	share := 1 / float32(n)
	for j := range units {
		dgamma[j] = 0
		for i := range n {
			dgamma[j] += float32(d[i*units+j] * normalized[i*units+j])
		}
		for i := range n {
			at := i*units + j
			pull := float32((dbeta[j] + float32(normalized[at]*dgamma[j])) * share)
			d[at] = gamma[j] * inverse[j] * (d[at] - pull)
		}
	}
}

func portableOutput(n, units int, a, w, z []float32) {
	for i := range n {
		lane := [lanes]float32{}
		for j, v := range a[i*units:][:units] {
			lane[j%lanes] += float32(v * w[j])
		}
		z[i] += reduce(&lane)
	}
}

func portableOutputBack(n, units int, a, w, g, d, dw []float32) {
	clear(dw)
	for i := range n {
		for j := range units {
			d[i*units+j] = g[i] * w[j]
			dw[j] += float32(g[i] * a[i*units+j])
		}
	}
}

func portableCross(n, units int, x0, x, bias, u, out []float32) {
	for at := range n * units {
		u[at] += bias[at%units]
		out[at] = float32(x0[at]*u[at]) + x[at]
	}
}

func portableCrossBack(n, units int, x0, u, d, du, dx0, db []float32) {
	clear(db)
	for at := range n * units {
		du[at] = d[at] * x0[at]
		db[at%units] += du[at]
		dx0[at] += float32(d[at] * u[at])
	}
}
