package reference

import (
	"fmt"
	"math"
)

// linear is x W + b; b may be nil.
func linear(x [][]float64, w, b []float64, cols int) [][]float64 {
	out := matrix(len(x), cols)
	for i := range x {
		for j := range cols {
			if b != nil {
				out[i][j] = b[j]
			}
			for k, v := range x[i] {
				out[i][j] += v * w[k*cols+j]
			}
		}
	}
	return out
}

// linearBack adds to dw and returns dx.
func linearBack(x, d [][]float64, w, dw []float64) [][]float64 {
	dx := matrix(len(x), len(x[0]))
	for i := range x {
		cols := len(d[i])
		for j, dj := range d[i] {
			for k, v := range x[i] {
				dw[k*cols+j] += v * dj
				dx[i][k] += w[k*cols+j] * dj
			}
		}
	}
	return dx
}

// layerTape is one MLP layer: x -> linear -> (norm) -> relu -> dropout -> out.
type layerTape struct {
	x, normalized, active, out [][]float64
	deviation                  []float64
}

// normEps is the models' constant under the root of batch norm.
const normEps = 1e-5

func (n *Net) deepForward(t *tape, z []float64) {
	x, p := t.x0, t.params.Dense
	for l, units := range n.spec.Hidden {
		at := fmt.Sprintf("deep.%d.", l)
		tape := layerTape{x: x}
		h := linear(x, p[at+"weight"], p[at+"bias"], units)
		if n.spec.BatchNorm {
			tape.normalized, tape.deviation = n.normalize(h, p[at+"norm.mean"], p[at+"norm.var"], t.Training)
			for i := range h {
				for j, v := range tape.normalized[i] {
					h[i][j] = v*p[at+"norm.gamma"][j] + p[at+"norm.beta"][j]
				}
			}
		}
		tape.active, tape.out = h, matrix(len(h), units)
		for i := range h {
			for j, v := range h[i] {
				tape.out[i][j] = math.Max(v, 0) * n.kept(t, l, i, j)
			}
		}
		t.deep = append(t.deep, tape)
		x = tape.out
	}
	for i := range x {
		for j, v := range x[i] {
			z[i] += v * p["out.deep"][j]
		}
	}
}

// normalize uses the statistics of h when training, the running ones if not.
func (n *Net) normalize(h [][]float64, mean, variance []float64, training bool) (normalized [][]float64, deviation []float64) {
	if training {
		mean, variance = statistics(h)
	}
	normalized, deviation = matrix(len(h), len(mean)), make([]float64, len(mean))
	for j := range mean {
		deviation[j] = math.Sqrt(variance[j] + normEps)
		for i := range h {
			normalized[i][j] = (h[i][j] - mean[j]) / deviation[j]
		}
	}
	return normalized, deviation
}

func statistics(h [][]float64) (mean, variance []float64) {
	mean, variance = make([]float64, len(h[0])), make([]float64, len(h[0]))
	for j := range mean {
		for i := range h {
			mean[j] += h[i][j] / float64(len(h))
		}
		for i := range h {
			variance[j] += (h[i][j] - mean[j]) * (h[i][j] - mean[j]) / float64(len(h))
		}
	}
	return mean, variance
}

// kept is what dropout multiplies a unit with: 0, or 1/(1-rate).
func (n *Net) kept(t *tape, layer, example, unit int) float64 {
	rate := n.spec.Dropout
	if !t.Training || rate == 0 {
		return 1
	}
	stream := mix(mix(mix(mix(n.spec.Seed)+uint64(t.Epoch))+uint64(layer)) + t.FirstRow + uint64(example))
	h := uint32(unit)*0x9e3779b1 ^ uint32(stream)
	h = (h ^ h>>16) * 0x85ebca6b
	h = ((h ^ h>>13) + uint32(stream>>32)) * 0xc2b2ae35
	if (h^h>>16)>>8 < uint32(rate*(1<<24)) {
		return 0
	}
	return 1 / (1 - float64(rate))
}

// mix is splitmix64's step.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// deepBackward adds to g and returns dx0.
func (n *Net) deepBackward(t *tape, dz []float64, g *Params) [][]float64 {
	last := t.deep[len(t.deep)-1].out
	d := matrix(len(last), len(last[0]))
	for i := range last {
		for j, v := range last[i] {
			g.Dense["out.deep"][j] += dz[i] * v
			d[i][j] = dz[i] * t.params.Dense["out.deep"][j]
		}
	}
	for l := len(t.deep) - 1; l >= 0; l-- {
		layer, at := t.deep[l], fmt.Sprintf("deep.%d.", l)
		for i := range d {
			for j := range d[i] {
				if layer.active[i][j] <= 0 {
					d[i][j] = 0
				}
				d[i][j] *= n.kept(t, l, i, j)
			}
		}
		if n.spec.BatchNorm {
			d = n.normalizeBack(t, layer, at, d, g)
		} else {
			for i := range d {
				for j, v := range d[i] {
					g.Dense[at+"bias"][j] += v
				}
			}
		}
		d = linearBack(layer.x, d, t.params.Dense[at+"weight"], g.Dense[at+"weight"])
	}
	return d
}

// normalizeBack follows each path by which an input moves the outputs: its
// own, through the mean and through the variance.
func (n *Net) normalizeBack(t *tape, layer layerTape, at string, d [][]float64, g *Params) [][]float64 {
	examples := float64(len(d))
	out := matrix(len(d), len(d[0]))
	h := linear(layer.x, t.params.Dense[at+"weight"], nil, len(d[0]))
	mean, variance := statistics(h)
	for j := range d[0] {
		s := layer.deviation[j]
		dMean, dVariance := 0.0, 0.0
		for i := range d {
			g.Dense[at+"norm.gamma"][j] += d[i][j] * layer.normalized[i][j]
			g.Dense[at+"norm.beta"][j] += d[i][j]
			dn := d[i][j] * t.params.Dense[at+"norm.gamma"][j]
			dMean -= dn / s
			dVariance -= dn * (h[i][j] - mean[j]) / (2 * s * s * s)
		}
		for i := range d {
			dn := d[i][j] * t.params.Dense[at+"norm.gamma"][j]
			out[i][j] = dn/s + dMean/examples + dVariance*2*(h[i][j]-mean[j])/examples
		}
		g.Dense[at+"norm.mean"][j] += mean[j] * examples * t.Scale
		g.Dense[at+"norm.var"][j] += variance[j] * examples * t.Scale
	}
	return out
}

// crossTape is one cross layer: out = x0 * u + x, u = x W + b.
type crossTape struct{ x, u, out [][]float64 }

func (n *Net) crossForward(t *tape, z []float64) {
	x, p := t.x0, t.params.Dense
	for l := range n.spec.CrossLayers {
		at := fmt.Sprintf("cross.%d.", l)
		tape := crossTape{x: x, u: linear(x, p[at+"weight"], p[at+"bias"], len(x[0])), out: matrix(len(x), len(x[0]))}
		for i := range x {
			for j := range x[i] {
				tape.out[i][j] = t.x0[i][j]*tape.u[i][j] + x[i][j]
			}
		}
		t.cross = append(t.cross, tape)
		x = tape.out
	}
	for i := range x {
		for j, v := range x[i] {
			z[i] += v * p["out.cross"][j]
		}
	}
}

// crossBackward adds to g and to dx0.
func (n *Net) crossBackward(t *tape, dz []float64, dx0 [][]float64, g *Params) {
	last := t.cross[len(t.cross)-1].out
	d := matrix(len(last), len(last[0]))
	for i := range last {
		for j, v := range last[i] {
			g.Dense["out.cross"][j] += dz[i] * v
			d[i][j] = dz[i] * t.params.Dense["out.cross"][j]
		}
	}
	for l := len(t.cross) - 1; l >= 0; l-- {
		layer, at := t.cross[l], fmt.Sprintf("cross.%d.", l)
		du := matrix(len(d), len(d[0]))
		for i := range d {
			for j, v := range d[i] {
				du[i][j] = v * t.x0[i][j]
				dx0[i][j] += v * layer.u[i][j]
				g.Dense[at+"bias"][j] += du[i][j]
			}
		}
		through := linearBack(layer.x, du, t.params.Dense[at+"weight"], g.Dense[at+"weight"])
		for i := range d {
			for j := range d[i] {
				d[i][j] += through[i][j]
			}
		}
	}
	for i := range d {
		for j, v := range d[i] {
			dx0[i][j] += v
		}
	}
}
