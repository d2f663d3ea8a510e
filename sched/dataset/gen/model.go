package gen

// model is the planted truth. Effects are integers with 16 fractional bits.
type model struct {
	seed   uint64
	fields []field
	cache  [][]effect // for each field the effects of its commonest codes
	linear float64    // scale of the linear part, set on the pilot
	pairs  float64    // scale of the pairs
	bias   float64
}

// rank of the planted factorization.
const rank = 1

type effect struct {
	w int64
	v [rank]int64
}

const (
	one = 1 << 16 // fixed point

	// common is the share of rows from which on a code has its full effect;
	// below, effects shrink with the root of the share. A code is learnt from
	// its own rows: signal in rarer codes could be planted but not found. At
	// 1e-3 a trainer stayed .03 below the reachable AUC on a million rows, at
	// 2e-2 .008, here .006.
	common = 5e-2

	cachedCodes = 1 << 14
)

// What the pilot scales the logit to: deviations of its parts, and the share
// of positive labels.
const (
	linearDeviation = 1.45
	pairsDeviation  = 0.5
	positiveShare   = 0.25
	pilotRows       = 10000
)

func plant(c Config) *model {
	m := &model{seed: c.Seed, fields: shape(c), linear: 1, pairs: 1}
	m.cache = make([][]effect, len(m.fields))
	for f := range m.fields {
		m.cache[f] = make([]effect, min(m.fields[f].size+1, cachedCodes))
		for code := range m.cache[f] {
			m.cache[f][code] = m.make(f, uint32(code))
		}
	}
	m.pilot()
	return m
}

// make computes a code's effect from its name.
func (m *model) make(f int, code uint32) (e effect) {
	shrink := 1.0
	if p := m.fields[f].chance(code); p < common {
		shrink = power(max(p, 1e-12)/common, 0.5)
	}
	size := int64(float64(shrink * one))
	h := named(m.seed, 1, uint64(f), uint64(code))
	e.w = bell(h) * size >> 16
	if m.fields[f].paired {
		for k := range e.v {
			e.v[k] = bell(mix(h+uint64(k)+1)) * size >> 16
		}
	}
	return e
}

func (m *model) effect(f int, code uint32) effect {
	if int(code) < len(m.cache[f]) {
		return m.cache[f][code]
	}
	return m.make(f, code)
}

// sum is a row's linear part and pairs before scaling.
type sum struct {
	w     int64
	v, vv [rank]int64
}

func (s *sum) add(e effect) {
	s.w += e.w
	for k, x := range e.v {
		s.v[k] += x
		s.vv[k] += x * x
	}
}

// parts are the linear part and the sum over pairs, as numbers.
func (s *sum) parts() (linear, pairs float64) {
	var twice int64
	for k := range s.v {
		twice += s.v[k]*s.v[k] - s.vv[k]
	}
	return float64(s.w) / one, float64(twice) / (2 * one * one)
}

func (m *model) logit(s *sum) float64 {
	linear, pairs := s.parts()
	return m.bias + float64(m.linear*linear) + float64(m.pairs*pairs)
}

// pilot sets the scales and the bias on rows that no file gets.
func (m *model) pilot() {
	sums := make([]sum, pilotRows)
	var a, b moments
	for i := range sums {
		s := stream{name: named(m.seed, 2, uint64(i))}
		for f := range m.fields {
			sums[i].add(m.effect(f, m.fields[f].draw(&s)))
		}
		linear, pairs := sums[i].parts()
		a.add(linear)
		b.add(pairs)
	}
	m.linear, m.pairs = linearDeviation/a.deviation(), pairsDeviation/b.deviation()
	low, high := -40.0, 40.0
	for range 40 {
		m.bias = (low + high) / 2
		total := 0.0
		for i := range sums {
			total += sigmoid(m.logit(&sums[i]))
		}
		if total < positiveShare*pilotRows {
			low = m.bias
		} else {
			high = m.bias
		}
	}
}

// moments gather a mean and a deviation.
type moments struct{ n, sum, squares float64 }

func (m *moments) add(x float64) {
	m.n++
	m.sum += x
	m.squares += float64(x * x)
}

// deviation of nothing, or of a constant, is 1: there is nothing to scale.
func (m *moments) deviation() float64 {
	v := m.squares/m.n - float64(m.sum/m.n*(m.sum/m.n))
	if !(v > 1e-12) {
		return 1
	}
	return power(v, 0.5)
}
