package kernels

// plainPast is plainRow for the rules that divide by what was summed before, and
// for those whose state is shared by the row.
func plainPast(r *Rule, o, w, s, g []float32) {
	n := float32(len(g))
	switch r.Kind {
	case PastAdaGrad:
		step := r.LR * sqrt(r.Beta/(r.Beta+s[0]))
		s[0] += sumSquares(0, g, g) / n
		for i, x := range w {
			o[i] = x - float32(step*g[i])
		}
	case PastAdaGradEach:
		for i, x := range w {
			step := r.LR * sqrt(r.Beta/(r.Beta+s[i]))
			s[i] += float32(g[i] * g[i])
			o[i] = x - float32(step*g[i])
		}
	case SharedAdam:
		fresh1, fresh2 := 1-r.Beta1, 1-r.Beta2
		m, v := float32(r.Beta1*s[0]), float32(r.Beta2*s[1])
		s[2], s[3] = power(s[2]*r.Beta1), power(s[3]*r.Beta2)
		rate, scale := r.LR/(1-s[2]), 1/sqrt(1-s[3])
		s[0] = m + float32(fresh1*(sumPlain(g)/n))
		s[1] = v + float32(fresh2*(sumSquares(0, g, g)/n))
		for i, x := range w {
			m1 := m + float32(fresh1*g[i])
			v1 := v + float32(float32(fresh2*g[i])*g[i])
			o[i] = x - float32(rate*m1)/(float32(sqrt(v1)*scale)+r.Eps)
		}
	}
}

// sumPlain adds in sixteen lanes, as sumSquares does.
func sumPlain(g []float32) float32 {
	var lane [16]float32
	for i, x := range g {
		lane[i%16] += x
	}
	return sumLanes(&lane)
}
