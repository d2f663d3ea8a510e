package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"psrt/sched/train"
	"psrt/sched/train/metric"
)

// display shows a running job on stderr: a line that is overwritten on a
// terminal, a line an epoch elsewhere.
type display struct {
	w        io.Writer
	quiet    bool
	terminal bool
	label    string // begins every line; then there is no line that is overwritten

	mu     sync.Mutex // guards what follows, and w
	dirty  bool
	warned []string // distinct warnings, oldest first, at most mostWarnings
	more   int      // warnings beyond those, each time that one comes
}

// mostWarnings bounds the warnings that the closing summary repeats.
const mostWarnings = 20

func newDisplay(f *os.File, quiet bool) *display {
	return &display{w: f, quiet: quiet, terminal: term.IsTerminal(int(f.Fd()))}
}

func (d *display) note(s string) {
	if !d.quiet {
		if d.label != "" {
			s = d.label + strings.ReplaceAll(s, "\n", "\n"+d.label)
		}
		d.line(s)
	}
}

// warn prints a warning, with --quiet, too, and keeps it for the closing summary.
func (d *display) warn(s string) {
	d.mu.Lock()
	switch {
	case slices.Contains(d.warned, s):
	case len(d.warned) == mostWarnings:
		d.more++
	default:
		d.warned = append(d.warned, s)
	}
	d.mu.Unlock()
	d.line(d.label + "warning: " + strings.ReplaceAll(s, "\n", "\n"+d.label))
}

// warnFigures prints the warnings about a model's figures on some data, and returns all that were printed.
func (d *display) warnFigures(of string, r *metric.Report) []string {
	for _, text := range train.EvalWarnings(of, r) {
		d.warn(text)
	}
	return d.warnings(nil)
}

// warnings lists a result's own warnings and those that warn printed, once each.
func (d *display) warnings(own []string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Clone(own)
	for _, s := range d.warned {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	if d.more > 0 {
		all = append(all, fmt.Sprintf("and %d more, which stderr has", d.more))
	}
	return all
}

// line is one, or several, that stay.
func (d *display) line(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
	fmt.Fprintln(d.w, s)
}

func (d *display) event(e train.Event) {
	switch {
	case e.Stall != "":
		d.line(d.label + e.Stall)
		return
	case e.Warning != "":
		d.warn(e.Warning)
		return
	}
	if d.quiet {
		return
	}
	switch {
	case e.Note != "":
		d.note(e.Note)
	case e.Progress != nil && d.terminal && d.label == "":
		d.passing(progressLine(e.Progress))
	case e.Epoch != nil:
		d.note(epochLine(e.Epoch))
	}
}

// passing is a line that the next takes the place of.
func (d *display) passing(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
	fmt.Fprint(d.w, s)
	d.dirty = true
}

// clear takes the line away that is overwritten; d.mu is held.
func (d *display) clear() {
	if d.dirty {
		fmt.Fprint(d.w, "\r\x1b[K")
		d.dirty = false
	}
}

func (d *display) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
}

const barWidth = 20

func progressLine(p *train.Progress) string {
	s := fmt.Sprintf("epoch %d ", p.Epoch)
	if p.Total > 0 {
		done := min(barWidth, int(int64(barWidth)*p.Examples/p.Total))
		s += "[" + strings.Repeat("=", done) + strings.Repeat(" ", barWidth-done) + "] "
	} else {
		s += fmt.Sprintf("%d examples ", p.Examples)
	}
	s += fmt.Sprintf("%s ex/s  loss %.4f", si(p.ExamplesPerS), p.Loss)
	if p.AUC != nil {
		s += fmt.Sprintf("  auc %.4f", *p.AUC)
	}
	if p.Remaining > 0 {
		s += fmt.Sprintf("  %v left", p.Remaining.Round(time.Second))
	}
	return s
}

func epochLine(e *train.Epoch) string {
	s := fmt.Sprintf("epoch %2d  %6.2f s  %8s ex/s  %d rows", e.Epoch, e.Seconds, si(float64(e.Rows)/max(e.Seconds, 1e-9)), e.Rows)
	for _, part := range []struct {
		name   string
		report *figures
	}{{"train", figuresOf(e.Train)}, {"valid", figuresOf(e.Valid)}} {
		if part.report != nil {
			s += "  " + part.name + " " + part.report.String()
			if n := part.report.r.Counted(); n != e.Rows {
				s += fmt.Sprintf(" of %d rows", n)
			}
		}
	}
	if e.Best {
		s += "  *"
	}
	return s
}

func si(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.1f k", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}
