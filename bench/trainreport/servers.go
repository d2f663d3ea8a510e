package trainreport

import (
	"fmt"
	"html/template"
	"slices"

	"psrt/bench/chart"
	"psrt/sched/psmsg"
	"psrt/sched/train"
)

// flow is what one worker has moved, in MB.
type flow struct {
	Worker           string
	In, Out, Percent float64
}

// flows adds up what servers know of each worker.
func flows(servers []psmsg.StatsReply) []flow {
	type moved struct{ in, out uint64 }
	by := map[int]moved{}
	var in uint64
	for _, s := range servers {
		for _, f := range s.Flows {
			m := by[f.Worker]
			by[f.Worker] = moved{m.in + f.InBytes, m.out + f.OutBytes}
			in += f.InBytes
		}
	}
	var workers []int
	for w := range by {
		workers = append(workers, w)
	}
	slices.Sort(workers)
	var all []flow
	for _, w := range workers {
		f := flow{Worker: fmt.Sprint(w), In: float64(by[w].in) / 1e6, Out: float64(by[w].out) / 1e6, Percent: 100 * float64(by[w].in) / float64(max(in, 1))}
		if w < 0 {
			f.Worker = "(others)"
		}
		all = append(all, f)
	}
	return all
}

// hit is how a server's lookups found their rows.
type hit struct {
	Memory int64
	Rate   string
}

// hits is nil where all rows are in memory.
func hits(s psmsg.StatsReply) *hit {
	var sum psmsg.TierStats
	for _, t := range s.Tables {
		if t.Tiers != nil {
			sum.Add(t.Tiers)
		}
	}
	all := sum.Hits + sum.Misses + sum.DeviceHits
	if all == 0 {
		return nil
	}
	h := &hit{Memory: sum.RowsInMemory, Rate: fmt.Sprintf("memory %.2f %%", 100*float64(sum.Hits)/float64(max(1, sum.Hits+sum.Misses)))}
	if sum.Device != "" {
		h.Rate = fmt.Sprintf("device %.2f %% (waited for %.1f s; copies in %.1f s, kernels %.1f s, copies out %.1f s), ", 100*float64(sum.DeviceHits)/float64(max(1, sum.DeviceHits+sum.DeviceMisses)), sum.DeviceWaited, sum.DeviceCopiesIn, sum.DeviceKernels, sum.DeviceCopiesOut) + h.Rate
	}
	return h
}

// running draws the training as it went.
func (v *view) running() {
	for _, c := range []struct {
		title string
		pick  func(train.Progress) float64
	}{
		{"loss while training, by examples", func(p train.Progress) float64 { return p.Loss }},
		{"AUC while training, by examples", func(p train.Progress) float64 {
			if p.AUC == nil {
				return 0 // no point
			}
			return *p.AUC
		}},
		{"examples/s, by examples", func(p train.Progress) float64 { return p.ExamplesPerS }},
	} {
		l := chart.Line{Name: "train"}
		for _, p := range v.Curve {
			if y := c.pick(p); y > 0 {
				l.Xs, l.Ys = append(l.Xs, float64(p.Examples)), append(l.Ys, y)
			}
		}
		if len(l.Xs) > 1 {
			drawn := chart.Chart{Title: c.title, Lines: []chart.Line{l}}
			v.Curves = append(v.Curves, template.HTML(drawn.SVG()))
		}
	}
}
