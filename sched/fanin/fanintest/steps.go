package fanintest

// lateFactor is how much longer a late worker computes.
const lateFactor = 16

// Steps are how long pushes took, from when a worker has something to push to
// the receiver's last byte, in ns.
type Steps struct {
	Plain, Late Took
}

// Took is a distribution.
type Took struct {
	N        int
	Mean     float64
	P50, P99 float64
}

type steps struct {
	began       []float64 // by worker
	plain, late []float32
}

// thinks says whether a worker computes between pushes.
func (m *sim) thinks(worker int) bool {
	odd := m.Slow + m.Stall
	return m.ThinkNanos > 0 && (worker < odd || worker >= odd+m.Hot)
}

func (m *sim) isLate(worker int) bool { return worker >= m.Workers-m.Late }

// size is what a worker pushes at a time.
func (m *sim) size(worker int) int64 {
	if m.thinks(worker) {
		return m.StepBytes
	}
	return pushBytes
}

func (m *sim) think(at int32) {
	mean := m.ThinkNanos
	if m.isLate(int(at)) {
		mean *= lateFactor
	}
	m.add(event{at: m.now + m.rng.ExpFloat64()*mean, what: computed, worker: at})
}

func (m *sim) computed(at int32) {
	if m.began == nil {
		m.began = make([]float64, m.Workers)
	}
	m.began[at] = m.now
	m.who[at].announce()
	m.uplink(at)
}

func (m *sim) stepDone(at int32) {
	if m.now >= m.WarmNanos {
		took := &m.plain
		if m.isLate(int(at)) {
			took = &m.late
		}
		*took = append(*took, float32(m.now-m.began[at]))
	}
	m.think(at)
}

func (s *steps) result() Steps { return Steps{Plain: took(s.plain), Late: took(s.late)} }

func took(v []float32) (t Took) {
	t.N = len(v)
	for _, x := range v {
		t.Mean += float64(x) / float64(len(v))
	}
	t.P50, t.P99 = quantiles(v)
	return t
}
