package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"psrt/sched/usage"
)

// Bounds on series.
const (
	MaxWorkers = 256
	MaxSources = 256
	// other stands for the workers beyond MaxWorkers.
	other = "other"
)

// metric is a name with its help, its kind and the names of its labels.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

// sink takes the values of one scrape.
type sink chan<- prometheus.Metric

func (s sink) put(m metric, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
}

// durations shows a histogram.
func (s sink) durations(m metric, c usage.Counts, labels ...string) {
	buckets, sum := make(map[float64]uint64, usage.Buckets), uint64(0)
	for i, n := range c.Buckets {
		sum += n
		if end, ok := usage.End(i); ok {
			buckets[end.Seconds()] = sum
		}
	}
	s <- prometheus.MustNewConstHistogram(m.desc, sum, float64(c.Nanos)/1e9, buckets, labels...)
}

// worker is a worker's label.
func worker(n int) string {
	switch {
	case n < 0:
		return "nobody"
	case n < MaxWorkers:
		return strconv.Itoa(n)
	}
	return other
}

// sums adds up values of the same labels before they are shown: a series is
// shown once.
type sums[K comparable] map[K]float64

func (s sums[K]) add(k K, v float64) { s[k] += v }

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
