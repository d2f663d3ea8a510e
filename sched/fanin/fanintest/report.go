package fanintest

import (
	"fmt"
	"strings"
)

// Row is a named scenario and what it shows. Idle is the run without pushes of
// the same network.
type Row struct {
	Name string
	Scenario
	Result
	Idle Result
}

// PullBoundNanos is what the p99 of a pull may come to: its own without pushes
// and k + 1 chunks in front of it.
func (r *Row) PullBoundNanos() float64 {
	return r.Idle.PullP99 + float64((r.K+1)*r.Chunk)/(r.Gbps/8)
}

// Crowds are the three modes side by side, for more and more workers.
func Crowds() ([]Row, error) {
	var rows []Row
	for _, gbps := range []float64{100, 400} {
		for _, workers := range []int{8, 64, 128, 1024} {
			for _, mode := range []Mode{Granted, Blast, Pause} {
				rows = append(rows, Row{Scenario: Base(mode, workers, gbps)})
			}
		}
	}
	return run(rows)
}

// Troubles are what else may be wrong, for Granted.
func Troubles() ([]Row, error) {
	var rows []Row
	add := func(name string, change func(*Scenario)) {
		s := Base(Granted, 64, 400)
		change(&s)
		rows = append(rows, Row{Name: name, Scenario: s})
	}
	add("none", func(s *Scenario) {})
	add("4 workers on lines of 1/20", func(s *Scenario) { s.Slow = 4 })
	add("8 workers stop for 2 ms of every 4", func(s *Scenario) { s.Stall = 8 })
	add("4 workers with 16 transfers, others 2", func(s *Scenario) { s.Hot = 4 })
	add("all three", func(s *Scenario) { s.Slow, s.Stall, s.Hot = 4, 8, 4 })
	add("workers react in 3 us, not 0.3", func(s *Scenario) { s.JitterNanos = 3000 })
	add("round trip 20 us", func(s *Scenario) { s.RTTNanos = 20_000 })
	add("round trip 100 us", func(s *Scenario) { s.RTTNanos = 100_000 })
	add("receiver takes 1 us a completion", func(s *Scenario) { s.ReceiveNanos = 1000 })
	add("lines of 10 Gb/s", func(s *Scenario) { *s = Base(Granted, 64, 10); s.PullNanos = 50_000 })
	return run(rows)
}

func run(rows []Row) ([]Row, error) {
	for i := range rows {
		r := &rows[i]
		var err error
		if r.Result, err = Run(r.Scenario); err != nil {
			return nil, err
		}
		idle := r.Scenario
		idle.Idle, idle.MeasureNanos = true, 10e6
		if r.Idle, err = Run(idle); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// Markdown is the tables of Crowds and Troubles.
func Markdown(crowds, troubles []Row) string {
	var b strings.Builder
	b.WriteString("| Gb/s | workers | how | goodput | Jain | least | queue p50 us | p99 us | pull p50 us | p99 us | at most | dropped | k x KiB |\n")
	b.WriteString("|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for i := range crowds {
		r := &crowds[i]
		bound, window := "-", "-"
		if r.Mode == Granted {
			bound, window = us(r.PullBoundNanos()), fmt.Sprintf("%d x %d", r.K, r.Chunk>>10)
		}
		fmt.Fprintf(&b, "| %.0f | %d | %s | %.3f | %.3f | %.2f | %s | %s | %s | %s | %s | %.3f | %s |\n", r.Gbps, r.Workers, r.Mode,
			r.Goodput, r.Jain, r.Least, us(r.QueueP50), us(r.QueueP99), us(r.PullP50), us(r.PullP99), bound, r.Dropped, window)
	}
	b.WriteString("\n| trouble (64 workers, 400 Gb/s, granted) | goodput | Jain of the others | queue p99 us | pull p99 us | at most | a slow worker's line | a hot worker, of a plain one | k x KiB |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for i := range troubles {
		r := &troubles[i]
		fmt.Fprintf(&b, "| %s | %.3f | %.3f | %s | %s | %s | %s | %s | %d x %d |\n", r.Name, r.Goodput, r.Jain, us(r.QueueP99),
			us(r.PullP99), us(r.PullBoundNanos()), share(r.SlowShare), share(r.HotShare), r.K, r.Chunk>>10)
	}
	return b.String()
}

func us(ns float64) string { return fmt.Sprintf("%.1f", ns/1e3) }

func share(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}
