package nn

import "math"

// expNeg is exp(-t) for t >= 0, to about 1e-15.
func expNeg(t float64) float64 {
	if t > 700 {
		t = 700
	}
	shifted := float64(t*0x1.71547652b82fep+0) + 0x1.8p52
	whole := shifted - 0x1.8p52
	r := (float64(whole*0x1.62e42fefa3800p-1) - t) + float64(whole*0x1.ef35793c76730p-45)
	p := 1.0 / 479001600
	for _, c := range [...]float64{1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
		1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1} {
		p = float64(p*r) + c
	}
	return p * math.Float64frombits((1023-math.Float64bits(shifted)&0x7ff)<<52)
}

// logOnePlus is log(1+e) for e in [0,1].
func logOnePlus(e float64) float64 {
	s := e / (2 + e)
	q := s * s
	p := 1.0 / 25
	for _, c := range [...]float64{1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
		1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1} {
		p = float64(p*q) + c
	}
	return 2 * s * p
}

func sigmoid(t float64) (p, e float64) {
	if t < 0 {
		e = expNeg(-t)
		return e / (1 + e), e
	}
	e = expNeg(t)
	return 1 / (1 + e), e
}

func portableLogLoss(scale float32, z, labels, g, preds []float32) float64 {
	total := 0.0
	for i := range z {
		t, y := float64(z[i]), float64(labels[i])
		p, e := sigmoid(t)
		positive := t
		if t < 0 {
			positive = 0
		}
		total += logOnePlus(e) + (positive - float64(y*t))
		preds[i] = float32(p)
		g[i] = float32(p-y) * scale
	}
	return total
}

func portableSigmoid(z, preds []float32) {
	for i := range z {
		p, _ := sigmoid(float64(z[i]))
		preds[i] = float32(p)
	}
}

func portableSquareLoss(scale float32, z, labels, g []float32) float64 {
	total := 0.0
	for i := range z {
		d := float64(z[i]) - float64(labels[i])
		total += float64(d * d)
		g[i] = float32(2*d) * scale
	}
	return total
}
