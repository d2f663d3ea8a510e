package kernels

import "math"

// The conversions float32(a*b) keep compilers for other CPUs from fusing a*b+c.

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func finite(g []float32) bool {
	for _, x := range g {
		if math.Float32bits(x)&0x7f800000 == 0x7f800000 {
			return false
		}
	}
	return true
}

// plainRow makes out of weights w, state s and gradient g the weights o, which
// may be w itself, and the state.
func plainRow(r *Rule, o, w, s, g []float32) {
	dim := len(g)
	o, w = o[:dim], w[:dim]
	switch r.Kind {
	case SGD:
		for i, x := range w {
			d := g[i] + float32(r.L2*x)
			o[i] = x - float32(r.LR*d)
		}
	case AdaGrad:
		for i, x := range w {
			d := g[i] + float32(r.L2*x)
			n := s[i] + float32(d*d)
			s[i] = n
			o[i] = x - float32(r.LR*d)/(sqrt(n)+r.Eps)
		}
	case RowAdaGrad:
		n := s[0] + sumSquares(r.L2, w, g)/float32(dim)
		s[0] = n
		step := r.LR / (sqrt(n) + r.Eps)
		for i, x := range w {
			d := g[i] + float32(r.L2*x)
			o[i] = x - float32(step*d)
		}
	case Adam:
		plainAdam(r, o, w, s, g)
	case FTRL:
		plainFTRL(r, o, w, s, g)
	case EMA:
		keep := 1 - r.LR
		for i, x := range w {
			o[i] = float32(keep*x) + float32(r.LR*g[i])
		}
	case Accumulate:
		for i, x := range g {
			o[i] = w[i] + x
		}
	case Assign:
		copy(o, g)
	default:
		plainPast(r, o, w, s, g)
	}
}

func plainUpdateInto(rule *Rule, dst, w, state, grad []float32) (refused int) {
	if !finite(grad) {
		return 1
	}
	plainRow(rule, dst, w, state, grad)
	return 0
}

// sumSquares adds the squares of g + l2 w in sixteen lanes, element i in lane i
// mod 16, and then the lanes in halves.
func sumSquares(l2 float32, w, g []float32) float32 {
	var lane [16]float32
	for i, x := range w {
		d := g[i] + float32(l2*x)
		lane[i%16] += float32(d * d)
	}
	return sumLanes(&lane)
}

func sumLanes(lane *[16]float32) float32 {
	for h := 8; h > 0; h /= 2 {
		for i := range h {
			lane[i] += lane[i+h]
		}
	}
	return lane[0]
}

func plainAdam(r *Rule, o, w, s, g []float32) {
	dim := len(g)
	m, v, p := s[:dim], s[dim:2*dim], s[2*dim:2*dim+2]
	p[0], p[1] = power(p[0]*r.Beta1), power(p[1]*r.Beta2)
	rate, scale := r.LR/(1-p[0]), 1/sqrt(1-p[1])
	fresh1, fresh2 := 1-r.Beta1, 1-r.Beta2
	for i, x := range w {
		d := g[i] + float32(r.L2*x)
		m1 := float32(r.Beta1*m[i]) + float32(fresh1*d)
		v1 := float32(r.Beta2*v[i]) + float32(float32(fresh2*d)*d)
		m[i], v[i] = m1, v1
		o[i] = x - float32(rate*m1)/(float32(sqrt(v1)*scale)+r.Eps)
	}
}

func power(p float32) float32 {
	if p < tinyPower {
		return 0
	}
	return p
}

func plainFTRL(r *Rule, o, w, s, g []float32) {
	dim := len(g)
	z, n := s[:dim], s[dim:2*dim]
	for i, x := range w {
		n1 := n[i] + float32(g[i]*g[i])
		root := sqrt(n1)
		sigma := (root - sqrt(n[i])) / r.LR
		z1 := z[i] + (g[i] - float32(sigma*x))
		z[i], n[i] = z1, n1
		o[i] = ftrlWeight(r, z1, root)
	}
}

func ftrlWeight(r *Rule, z, root float32) float32 {
	l1 := r.L1
	if z < 0 {
		l1 = -l1
	}
	if abs := float32(math.Abs(float64(z))); abs <= r.L1 {
		return 0
	}
	return (l1 - z) / ((r.Beta+root)/r.LR + r.L2)
}
