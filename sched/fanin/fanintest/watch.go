package fanintest

import (
	"fmt"
	"strings"
	"time"

	"psrt/sched/fanin"
	"psrt/sched/probe"
)

// The view looks every millisecond and forgets within four: what a server does
// in seconds, so that a run of a tenth of a second has many of them.
const (
	watchNanos  = 1_000_000
	watchSmooth = 4 * time.Millisecond
)

// Words counts what the view has said and what the policy has done about it.
type Words struct {
	Looks       int
	Hot, Behind int   // workers named, all looks together
	HotOthers   int   // of these, such that are not
	First       int64 // turns, as the policy counts them
	Passed      int64
}

type watcher struct {
	view    *probe.View
	reading probe.Reading
	words   Words
}

func (m *sim) startWatch() (err error) {
	if !m.Watch {
		return nil
	}
	m.reading.Samples = make([]probe.Sample, m.Workers)
	for i := range m.reading.Samples {
		m.reading.Samples[i].QueuePair = uint32(i)
	}
	whose := func(s probe.Source) (int, bool) { return int(s.QueuePair), true }
	m.view, err = probe.NewView(probe.ViewConfig{Workers: whose, Smooth: watchSmooth})
	m.add(event{at: watchNanos, what: watch})
	return err
}

// seen counts what reaches the receiver, as a meter does.
func (m *sim) seen(w int32, bytes float64) {
	if m.view != nil {
		m.reading.Samples[w].Bytes += uint64(bytes)
	}
}

func (m *sim) watch() {
	m.must(m.view.Update(int64(m.now), &m.reading))
	m.words.Looks++
	odd := m.Slow + m.Stall
	for _, w := range m.view.FanIn().Workers {
		word := fanin.Plain
		switch {
		case w.Hot:
			word = fanin.Hot
			m.words.Hot++
			if w.Worker < odd || w.Worker >= odd+m.Hot {
				m.words.HotOthers++
			}
		case w.Straggler:
			word = fanin.Behind
			m.words.Behind++
		}
		m.must(m.rx.policy.Say(w.Worker, word))
	}
	s := m.rx.policy.Stats()
	m.words.First, m.words.Passed = s.First, s.Passed
	m.add(event{at: m.now + watchNanos, what: watch})
}

// watched are the runs that show what words do, each to be run without and
// with.
func watched() []Row {
	row := func(name string, change func(*Scenario)) Row {
		s := Base(Granted, 64, 400)
		s.MeasureNanos = 40e6
		change(&s)
		return Row{Name: name, Scenario: s}
	}
	steps := func(s *Scenario, think float64, bytes int64) { s.ThinkNanos, s.StepBytes = think, bytes }
	return []Row{
		row("4 hot, 4 late, others 32 KiB in 100 us", func(s *Scenario) { s.Hot, s.Late = 4, 4; steps(s, 100e3, 32<<10) }),
		row("4 hot, 4 late, others 128 KiB in 200 us", func(s *Scenario) { s.Hot, s.Late = 4, 4; steps(s, 200e3, 128<<10) }),
		row("4 hot, 4 late, others 512 KiB in 800 us", func(s *Scenario) { s.Hot, s.Late = 4, 4; steps(s, 800e3, 512<<10) }),
		row("4 late, others 128 KiB in 50 us", func(s *Scenario) { s.Late = 4; steps(s, 50e3, 128<<10) }),
		row("8 of 10 Gb/s: 1 hot, 1 late, others 64 KiB in 1 ms", func(s *Scenario) {
			*s = Base(Granted, 8, 10)
			s.MeasureNanos, s.PullNanos, s.Hot, s.Late = 400e6, 50_000, 1, 1
			steps(s, 1e6, 64<<10)
		}),
		row("64 push without end", func(s *Scenario) {}),
	}
}

// Watched are the runs of watched, in pairs.
func Watched() ([]Row, error) {
	var rows []Row
	for _, r := range watched() {
		for _, watch := range []bool{false, true} {
			r.Watch = watch
			rows = append(rows, r)
		}
	}
	return run(rows)
}

// WordsMarkdown is the table of Watched.
func WordsMarkdown(rows []Row) string {
	var b strings.Builder
	b.WriteString("\n| watched | words | goodput | a late worker's push us | p99 us | another's us | p99 us | a hot worker, of a plain one | pull p99 us | turns first | passed |\n")
	b.WriteString("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for i := range rows {
		r := &rows[i]
		words := map[bool]string{false: "no", true: "yes"}[r.Watch]
		fmt.Fprintf(&b, "| %s | %s | %.3f | %s | %s | %s | %s | %s | %s | %d | %d |\n", r.Name, words, r.Goodput,
			long(r.Steps.Late, r.Steps.Late.Mean), long(r.Steps.Late, r.Steps.Late.P99), long(r.Steps.Plain, r.Steps.Plain.Mean),
			long(r.Steps.Plain, r.Steps.Plain.P99), share(r.HotShare), us(r.PullP99), r.Words.First, r.Words.Passed)
	}
	return b.String()
}

func long(t Took, ns float64) string {
	if t.N == 0 {
		return "-"
	}
	return us(ns)
}
