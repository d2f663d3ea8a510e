package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"psrt/sched/train"
)

// screen is what stands on a terminal's lines at the end.
func screen(b []byte) []string {
	lines := []string{""}
	for s := string(b); s != ""; {
		last := len(lines) - 1
		switch {
		case strings.HasPrefix(s, "\r\x1b[K"):
			lines[last], s = "", s[len("\r\x1b[K"):]
		case s[0] == '\n':
			lines, s = append(lines, ""), s[1:]
		default:
			lines[last], s = lines[last]+s[:1], s[1:]
		}
	}
	return lines
}

// TestProgressBar: on a terminal one line shows how far an epoch is, and leaves nothing
// behind; elsewhere, and with a label, there is a line an epoch alone.
func TestProgressBar(t *testing.T) {
	auc := .75
	events := func(d *display) {
		d.event(train.Event{Progress: &train.Progress{Epoch: 1, Examples: 1500, ExamplesPerS: 2500, Loss: .5}})
		d.event(train.Event{Progress: &train.Progress{Epoch: 2, Examples: 300, Total: 1200, ExamplesPerS: 3e6, Loss: .25, AUC: &auc, Remaining: 61400 * time.Millisecond}})
	}
	var b bytes.Buffer
	d := &display{w: &b, terminal: true}
	events(d)
	if at := screen(b.Bytes()); len(at) != 1 || at[0] != "epoch 2 [=====               ] 3.00 M ex/s  loss 0.2500  auc 0.7500  1m1s left" {
		t.Errorf("the line is %q", at)
	}
	d.event(train.Event{Progress: &train.Progress{Epoch: 2, Examples: 1300, Total: 1200, ExamplesPerS: 800}})
	if at := screen(b.Bytes()); !strings.HasPrefix(at[0], "epoch 2 ["+strings.Repeat("=", barWidth)+"] 800 ex/s") {
		t.Errorf("of more examples than there were before: %q", at)
	}
	d.event(train.Event{Note: "a note"})
	events(d)
	d.event(train.Event{Epoch: &train.Epoch{Epoch: 2, Seconds: 2, Rows: 1200}})
	events(d)
	d.end()
	if at := screen(b.Bytes()); len(at) != 3 || at[0] != "a note" || !strings.HasPrefix(at[1], "epoch  2    2.00 s") || at[2] != "" {
		t.Errorf("the lines are %q", at)
	}
	for name, d := range map[string]*display{"a file": {}, "a label": {terminal: true, label: "1: "}, "quiet": {terminal: true, quiet: true}} {
		var b bytes.Buffer
		d.w = &b
		events(d)
		d.end()
		if b.Len() > 0 {
			t.Errorf("%s: %q", name, b.String())
		}
	}
}

// TestWarningsPassQuiet: --quiet hides notes and progress, and no warning. The closing summary repeats each once.
func TestWarningsPassQuiet(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		var b bytes.Buffer
		d := &display{w: &b, quiet: quiet, label: "1: "}
		d.event(train.Event{Note: "a note"})
		d.event(train.Event{Warning: "a checkpoint failed"})
		d.event(train.Event{Warning: "a checkpoint failed"})
		want := strings.Repeat("1: warning: a checkpoint failed\n", 2)
		if !quiet {
			want = "1: a note\n" + want
		}
		if b.String() != want {
			t.Errorf("quiet %v: %q, want %q", quiet, b.String(), want)
		}
		if got := d.warnings(nil); len(got) != 1 || got[0] != "a checkpoint failed" {
			t.Errorf("the summary has %q", got)
		}
		for i := range mostWarnings + 5 {
			d.warn(strings.Repeat("x", i+1))
		}
		if got := d.warnings(nil); len(got) != mostWarnings+1 || got[mostWarnings] != "and 6 more, which stderr has" {
			t.Errorf("of many warnings the summary has %d lines, the last %q", len(got), got[len(got)-1])
		}
		b.Reset()
		printResult(&b, &train.Result{Warnings: d.warnings(nil)[:1]})
		if !strings.Contains(b.String(), "warning      a checkpoint failed\n") {
			t.Errorf("the summary is %q", b.String())
		}
	}
}
