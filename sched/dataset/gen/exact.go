package gen

import "math"

// ln and exp from additions, products and divisions that are rounded one by one:
// the conversions keep compilers from fusing them, so every machine gets the
// same bits, which math.Log and math.Exp do not promise.

// ln is accurate to about 1e-15. Precondition: x > 0, finite and normal.
func ln(x float64) float64 {
	m, e := math.Frexp(x) // in [.5, 1)
	if m < math.Sqrt2/2 {
		m, e = m*2, e-1
	}
	t := (m - 1) / (m + 1) // |t| < .172
	t2 := float64(t * t)
	sum := 0.0
	for n := 23; n >= 1; n -= 2 {
		sum = float64(sum*t2) + 1/float64(n)
	}
	return float64(2*float64(t*sum)) + float64(float64(e)*math.Ln2)
}

// exp is accurate to about 1e-15 relative. Precondition: |x| < 700.
func exp(x float64) float64 {
	k := math.Round(x / math.Ln2)
	r := x - float64(k*math.Ln2)
	sum := 1.0
	for n := 15; n >= 1; n-- {
		sum = 1 + float64(sum*r)/float64(n)
	}
	return math.Ldexp(sum, int(k))
}

// power is x to the y. Precondition: x > 0.
func power(x, y float64) float64 { return exp(float64(y * ln(x))) }

// sigmoid is 1/(1+e^-x).
func sigmoid(x float64) float64 { return 1 / (1 + exp(-min(max(x, -500), 500))) }
