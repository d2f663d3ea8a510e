package plan

import "math"

// Distinct is how many different ids n draws have, on average, of rows ids that are met
// with frequencies 1/rank^zipf: the sum over ids of 1-(1-p)^n. Ids are taken by
// stretches of ranks whose frequencies differ by a hundredth, some 70 for each factor two.
// Ranks beyond 2^52 do not count: soon two of them cannot be told apart.
func Distinct(n, rows, zipf float64) float64 {
	if n <= 0 || rows < 1 {
		return 0
	}
	rows = math.Min(rows, 1<<52)
	total := harmonic(1, rows, zipf)
	sum := 0.0
	for from := 1.0; from <= rows; {
		// Ranks from..to are taken as their mean.
		to := math.Min(rows, math.Max(from, math.Floor(from*1.01)))
		ids := to - from + 1
		p := harmonic(from, to, zipf) / total / ids
		if p >= 1 {
			sum += ids
		} else {
			sum -= ids * math.Expm1(n*math.Log1p(-p))
		}
		from = to + 1
	}
	return math.Min(sum, math.Min(n, rows))
}

// harmonic is the sum of rank^-zipf over whole ranks from..to: the first ones each, the
// others by Euler and Maclaurin.
func harmonic(from, to, zipf float64) (sum float64) {
	const exact = 64
	for ; from <= to && from <= exact; from++ {
		sum += math.Pow(from, -zipf)
	}
	if from > to {
		return sum
	}
	f := func(x float64) float64 { return math.Pow(x, -zipf) }
	integral := math.Log(to / from)
	if zipf != 1 {
		integral = (math.Pow(to, 1-zipf) - math.Pow(from, 1-zipf)) / (1 - zipf)
	}
	return sum + integral + (f(from)+f(to))/2
}
