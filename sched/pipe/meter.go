package pipe

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"psrt/sched/usage"
)

// Meter is where a line's time goes. The line writes, any goroutine reads. The zero
// value stands.
type Meter struct {
	steps, depth        atomic.Int64
	threads             atomic.Int64 // that read, above 32 bits of those that compute
	announce            flight       // of steps that have not begun
	pull, push          flight
	compute             timed
	queued              timed // values that were here before they were wanted
	input, values, room busy  // the line stood still for
}

// busy adds up time.
type busy struct{ nanos atomic.Int64 }

func (b *busy) add(d time.Duration) { b.nanos.Add(int64(d)) }
func (b *busy) seconds() float64    { return time.Duration(b.nanos.Load()).Seconds() }

// timed is something that takes its time each step.
type timed struct {
	total busy
	mu    sync.Mutex
	each  Sample
}

func (t *timed) add(d time.Duration) {
	t.total.add(d)
	t.mu.Lock()
	t.each.Add(d.Seconds())
	t.mu.Unlock()
}

func (t *timed) stage(name string, busy float64) Stage {
	t.mu.Lock()
	defer t.mu.Unlock()
	times := t.each.Times()
	return Stage{Name: name, Seconds: busy, Sum: t.total.seconds(), Mean: times.Mean, P95: times.P95}
}

// flight is what may be under way several times at once.
type flight struct {
	under usage.Clock
	timed
}

func (f *flight) begin() { f.under.Enter() }

func (f *flight) end(d time.Duration) {
	f.under.Leave()
	f.add(d)
}

// Waits are the seconds for which a line stood still.
func (m *Meter) Waits() (input, values, room float64) {
	return m.input.seconds(), m.values.seconds(), m.room.seconds()
}

// shares are the seconds for which the line stood still for input and for values, and
// computed.
func (m *Meter) shares() [3]float64 {
	input, values, _ := m.Waits()
	return [3]float64{input, values, m.Compute()}
}

// Settled is how many steps are pulled ahead, and how many threads read and compute (0
// where nobody settles that).
func (m *Meter) Settled() (depth, read, compute int) {
	t := m.threads.Load()
	return int(m.depth.Load()), int(t >> 32), int(t & (1<<32 - 1))
}

// Compute is the seconds that were spent computing.
func (m *Meter) Compute() float64 { return m.compute.total.seconds() }

// Stage is one stage of a line, or of the lines of several workers.
type Stage struct {
	Name string `json:"stage"`
	// Busy is the share of the training time in which at least one step was in the
	// stage; Seconds is that time, over all workers.
	Busy    float64 `json:"busy"`
	Seconds float64 `json:"seconds"`
	Sum     float64 `json:"-"`      // of all steps' times in it, which overlap; before Merge
	Mean    float64 `json:"mean_s"` // that one step was in it
	P95     float64 `json:"p95_s,omitempty"`
}

// Summary is what a line did.
type Summary struct {
	Steps int64 `json:"steps"`
	// Depth is how many steps are pulled ahead, as it was settled in the end.
	Depth int `json:"depth"`
	// Likewise the threads of a worker that read and that compute.
	ReadThreads    int     `json:"read_threads,omitempty"`
	ComputeThreads int     `json:"compute_threads,omitempty"`
	Stages         []Stage `json:"stages"`
	// QueueSeconds is how long a step's values waited to be computed, on average.
	QueueSeconds float64 `json:"queue_s"`
	QueuedSum    float64 `json:"-"` // of all steps; before Merge
	// The line stood still for a step to be read, for values and for room to push:
	// shares of the training time.
	WaitInput  float64 `json:"wait_input"`
	WaitValues float64 `json:"wait_values"`
	WaitPush   float64 `json:"wait_push"`
}

// Summary reads the meter; read is what the caller knows of its reading.
func (m *Meter) Summary(read Stage) Summary {
	s := Summary{Steps: m.steps.Load()}
	s.Depth, s.ReadThreads, s.ComputeThreads = m.Settled()
	s.Stages = []Stage{read}
	if told := m.announce.stage("announce", m.announce.under.Busy().Seconds()); told.Sum > 0 {
		s.Stages = append(s.Stages, told)
	}
	s.Stages = append(s.Stages,
		m.pull.stage("pull", m.pull.under.Busy().Seconds()),
		m.compute.stage("compute", m.compute.total.seconds()),
		m.push.stage("push", m.push.under.Busy().Seconds()))
	queued := m.queued.stage("", 0)
	s.QueueSeconds, s.QueuedSum = queued.Mean, queued.Sum
	s.WaitInput, s.WaitValues, s.WaitPush = m.Waits()
	return s
}

// Overlap is the part of the time in which steps were read, or pulled, that did not
// keep the line from computing: 1 where all of it is hidden. Of shares, after Merge.
func (s Summary) Overlap() float64 {
	var busy float64
	for _, st := range s.Stages {
		if st.Name == "read" || st.Name == "pull" {
			busy += st.Busy
		}
	}
	if busy == 0 {
		return 0
	}
	return min(1, max(0, 1-(s.WaitInput+s.WaitValues+s.WaitPush)/busy))
}

// Merge brings the summaries of several workers together; span is the time that each
// trained. Waits come as seconds and go as shares.
func Merge(all []Summary, span float64) (sum Summary) {
	if len(all) == 0 || span <= 0 {
		return sum
	}
	n := float64(len(all))
	for _, s := range all {
		sum.Steps = max(sum.Steps, s.Steps)
		sum.Depth = max(sum.Depth, s.Depth)
		sum.ReadThreads, sum.ComputeThreads = max(sum.ReadThreads, s.ReadThreads), max(sum.ComputeThreads, s.ComputeThreads)
		sum.QueueSeconds += s.QueueSeconds / n
		sum.WaitInput += s.WaitInput / n / span
		sum.WaitValues += s.WaitValues / n / span
		sum.WaitPush += s.WaitPush / n / span
		for at, st := range s.Stages {
			i := slices.IndexFunc(sum.Stages, func(have Stage) bool { return have.Name == st.Name })
			if i < 0 { // one that not all have keeps its place
				i = min(at, len(sum.Stages))
				sum.Stages = slices.Insert(sum.Stages, i, Stage{Name: st.Name})
			}
			to := &sum.Stages[i]
			to.Seconds += st.Seconds
			to.Busy += st.Seconds / n / span
			to.Mean += st.Mean / n
			to.P95 = max(to.P95, st.P95)
		}
	}
	return sum
}

// Times are how long steps took.
type Times struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_s"`
	P95   float64 `json:"p95_s"`
	Mean  float64 `json:"mean_s"`
}

// sampleMost bounds what is kept of a sample.
const sampleMost = 4096

// Sample keeps some of many figures, each with the same probability.
type Sample struct {
	n    int64
	sum  float64
	kept []float64
}

// Add takes one figure.
func (s *Sample) Add(x float64) {
	s.n++
	s.sum += x
	if len(s.kept) < sampleMost {
		s.kept = append(s.kept, x)
	} else if i := rand.Int64N(s.n); i < sampleMost {
		s.kept[i] = x
	}
}

// Times are the figures.
func (s *Sample) Times() Times {
	if s.n == 0 {
		return Times{}
	}
	kept := slices.Sorted(slices.Values(s.kept))
	at := func(q float64) float64 { return kept[int(q*float64(len(kept)-1))] }
	return Times{Count: s.n, P50: at(.5), P95: at(.95), Mean: s.sum / float64(s.n)}
}
