package fan

import (
	"slices"

	"psrt/bench/report"
)

// merged is a point of all rounds.
type merged struct {
	Point
	peak         float64 // goodput of the best round
	share, ratio float64 // of the goodput with the first number of workers, and of the link
}

// middle takes of each measure the median over the rounds, and the sum of what
// is counted. Chunk, window and the guesses are the last round's.
func middle(rounds []*Point) *merged {
	m := &merged{Point: *rounds[len(rounds)-1]}
	of := func(f func(*Point) float64) float64 {
		v := make([]float64, len(rounds))
		for i, p := range rounds {
			v[i] = f(p)
		}
		slices.Sort(v)
		return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	}
	over := func(a, b float64) float64 {
		if b <= 0 {
			return 0
		}
		return a / b
	}
	m.Goodput = of(func(p *Point) float64 { return p.Goodput })
	m.Link = of(func(p *Point) float64 { return p.Link })
	m.share = of(func(p *Point) float64 { return over(p.Goodput, p.Alone) })
	m.ratio = of(func(p *Point) float64 { return over(p.Goodput, p.Link) })
	m.Jain = of(func(p *Point) float64 { return p.Jain })
	m.Least = of(func(p *Point) float64 { return p.Least })
	m.BoundMicros = of(func(p *Point) float64 { return p.BoundMicros })
	m.Load = of(func(p *Point) float64 { return p.Load })
	latency := func(f func(*Point) report.Latency) report.Latency {
		return report.Latency{
			Min:     of(func(p *Point) float64 { return f(p).Min }),
			Typical: of(func(p *Point) float64 { return f(p).Typical }),
			Avg:     of(func(p *Point) float64 { return f(p).Avg }),
			P99:     of(func(p *Point) float64 { return f(p).P99 }),
			P999:    of(func(p *Point) float64 { return f(p).P999 }),
		}
	}
	m.Unloaded = latency(func(p *Point) report.Latency { return p.Unloaded })
	m.Loaded = latency(func(p *Point) report.Latency { return p.Loaded })

	m.Pushes, m.Bytes, m.Seconds, m.Probes, m.CPUSeconds, m.CPUBytes = 0, 0, 0, 0, 0, 0
	m.Each, m.Counts, m.Seen = make([]int64, m.Workers), Counts{}, Seen{}
	for _, p := range rounds {
		m.peak = max(m.peak, p.Goodput)
		m.Pushes, m.Bytes, m.Seconds = m.Pushes+p.Pushes, m.Bytes+p.Bytes, m.Seconds+p.Seconds
		m.Probes, m.CPUSeconds, m.CPUBytes = m.Probes+p.Probes, m.CPUSeconds+p.CPUSeconds, m.CPUBytes+p.CPUBytes
		m.Counts = m.Counts.plus(p.Counts)
		m.Seen.plus(&p.Seen)
		for i, n := range p.Each {
			m.Each[i] += n
		}
	}
	return m
}
