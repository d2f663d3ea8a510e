package fanintest

import "slices"

// book is what is measured.
type book struct {
	landed []float64 // by worker
	waits  []float32
	pulls  []float32
}

func (b *book) land(m *sim, w int32, bytes float64) {
	m.seen(w, bytes)
	if m.now >= m.WarmNanos {
		b.landed[w] += bytes
	}
}

func (b *book) waited(m *sim, ns float64) {
	if m.now >= m.WarmNanos {
		b.waits = append(b.waits, float32(ns))
	}
}

func (b *book) pulled(m *sim, ns float64) {
	if m.now >= m.WarmNanos {
		b.pulls = append(b.pulls, float32(ns))
	}
}

func (m *sim) result() Result {
	r := Result{Dropped: float64(m.sw.dropped) / float64(max(m.sw.came, 1))}
	line := m.rate * m.MeasureNanos // bytes
	for _, v := range m.out.landed {
		r.Goodput += v / line
	}
	r.QueueP50, r.QueueP99 = quantiles(m.out.waits)
	r.PullP50, r.PullP99 = quantiles(m.out.pulls)
	odd := m.Slow + m.Stall
	plain := m.out.landed[min(odd+m.Hot, m.Workers):]
	alike := m.out.landed[odd:]
	r.Jain = Jain(alike)
	if mean(alike) > 0 {
		r.Least = slices.Min(alike) / mean(alike)
	}
	if m.Hot > 0 && len(plain) > 0 {
		r.HotShare = mean(m.out.landed[odd:odd+m.Hot]) / mean(plain)
	}
	if m.Slow > 0 {
		r.SlowShare = mean(m.out.landed[:m.Slow]) / (line / 20)
	}
	if m.rx.policy != nil {
		s := m.rx.policy.Stats()
		r.Chunk, r.K, r.SetAside = s.ChunkBytes, s.WindowBytes/s.ChunkBytes, s.SetAside
	}
	r.Steps, r.Words = m.steps.result(), m.watcher.words
	return r
}

func quantiles(v []float32) (p50, p99 float64) {
	if len(v) == 0 {
		return 0, 0
	}
	slices.Sort(v)
	return float64(v[len(v)/2]), float64(v[len(v)*99/100])
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}

// Jain is the fairness index of Jain, Chiu and Hawe: 1 if all are equal, 1/n if
// one has everything.
func Jain(v []float64) float64 {
	var sum, squares float64
	for _, x := range v {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(v)) * squares)
}
