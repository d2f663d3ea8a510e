package qualify

import (
	"math"
	"slices"
)

// Sample is one figure of one ordered pair, To being the end that is written
// to.
type Sample struct {
	From, To         int
	FromHost, ToHost int
	Value            float64
}

// Rule says which figures are outliers. The figures of one kind of pair, those
// within a host and those between hosts, are compared with each other.
type Rule struct {
	Higher bool // a higher value is better, as of bandwidth
	// MADs is how many median absolute deviations (as of a normal distribution:
	// times 1.4826) a figure may be worse than the median,
	MADs float64
	// Tolerance is the share of the median that it may be worse anyway,
	Tolerance float64
	// Least is the difference that never matters, in the figures' unit.
	Least float64
}

// Spread is what figures of one kind have in common.
type Spread struct {
	SameHost  bool
	Count     int
	Median    float64
	MAD       float64
	Best      float64
	Worst     float64
	Threshold float64 // a figure that is worse than this is an outlier
	// Divided: the median is so far from the best tenth that it would itself be an
	// outlier, if most pairs were as good. With few ranks one slow
	// host has most of the pairs, and nothing stands out from the median.
	Divided bool
}

// Verdict is what Judge found.
type Verdict struct {
	Spreads []Spread
	Slow    []int // indices of the samples that are outliers
	// Ranks and Hosts have most of their figures among the outliers.
	Ranks, Hosts []Blame
}

// Blame is a rank or host most of whose figures are outliers: of those where it
// writes (From), of those where it is written to (To), or of both.
type Blame struct {
	Who      int
	From, To bool
}

// fewest samples that have a median to stand out from.
const fewest = 4

// Judge names what is slow.
func Judge(samples []Sample, rule Rule) Verdict {
	var v Verdict
	for _, same := range []bool{true, false} {
		var kind []int
		for i, s := range samples {
			if (s.FromHost == s.ToHost) == same {
				kind = append(kind, i)
			}
		}
		if len(kind) == 0 {
			continue
		}
		values := make([]float64, len(kind))
		for k, i := range kind {
			values[k] = samples[i].Value
		}
		sp := rule.spread(values)
		sp.SameHost = same
		v.Spreads = append(v.Spreads, sp)
		if sp.Count < fewest {
			continue
		}
		for _, i := range kind {
			if rule.worse(samples[i].Value, sp.Threshold) {
				v.Slow = append(v.Slow, i)
			}
		}
	}
	slices.Sort(v.Slow)
	v.Ranks = blame(samples, v.Slow, fromRank, toRank)
	v.Hosts = blame(samples, v.Slow, fromHost, toHost)
	return v
}

func (r Rule) worse(a, b float64) bool {
	if r.Higher {
		return a < b
	}
	return a > b
}

// extreme: a figure so many times worse than the median is an outlier however
// noisy the others are, and a rate can be no worse than 0.
const extreme = 4

// allowed is how much worse than the median a figure may be.
func (r Rule) allowed(median, mad float64) float64 {
	most := (extreme - 1) * median
	if r.Higher {
		most = median - median/extreme
	}
	return max(min(max(r.MADs*1.4826*mad, r.Tolerance*median), most), r.Least)
}

func (r Rule) spread(values []float64) Spread {
	slices.Sort(values)
	s := Spread{Count: len(values), Median: middle(values), Best: values[0], Worst: values[len(values)-1]}
	if r.Higher {
		s.Best, s.Worst = s.Worst, s.Best
	}
	off := make([]float64, len(values))
	for i, v := range values {
		off[i] = math.Abs(v - s.Median)
	}
	slices.Sort(off)
	s.MAD = middle(off)
	sign := 1.0
	if r.Higher {
		sign = -1
	}
	s.Threshold = s.Median + sign*r.allowed(s.Median, s.MAD)
	good := values[len(values)/10] // one lucky figure is no measure
	if r.Higher {
		good = values[len(values)-1-len(values)/10]
	}
	s.Divided = r.worse(s.Median, good+sign*max(2*r.Tolerance*good, r.Least))
	return s
}

// middle is the median of sorted values.
func middle(v []float64) float64 {
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

func fromRank(s Sample) int { return s.From }
func toRank(s Sample) int   { return s.To }
func fromHost(s Sample) int { return s.FromHost }
func toHost(s Sample) int   { return s.ToHost }

// blame names the ranks or hosts that most of their figures as one end, and two
// at least, are outliers of: a bad cable or port is often slow one way only.
func blame(samples []Sample, slow []int, from, to func(Sample) int) []Blame {
	named := map[int]*Blame{}
	for way, end := range []func(Sample) int{from, to} {
		all, bad := map[int]int{}, map[int]int{}
		for _, s := range samples {
			all[end(s)]++
		}
		for _, i := range slow {
			bad[end(samples[i])]++
		}
		for who, n := range bad {
			if n < 2 || 2*n <= all[who] {
				continue
			}
			if named[who] == nil {
				named[who] = &Blame{Who: who}
			}
			named[who].From = named[who].From || way == 0
			named[who].To = named[who].To || way == 1
		}
	}
	var list []Blame
	for _, b := range named {
		list = append(list, *b)
	}
	slices.SortFunc(list, func(a, b Blame) int { return a.Who - b.Who })
	return list
}
