package stall

import (
	"fmt"
	"strings"
)

// Kind is why somebody waits.
type Kind string

const (
	Completion  Kind = "no completion" // an answer has not come
	Credit      Kind = "no credit"     // it may not send: no free slot, no grant
	Barrier     Kind = "barrier"       // others have not come
	Clock       Kind = "clock"         // others have not finished a step
	Step        Kind = "step"          // others' gradients of a step are lacking
	Disk        Kind = "disk"
	Memory      Kind = "memory" // all of it is in use
	Coordinator Kind = "coordinator"
	Checkpoint  Kind = "checkpoint"
	Connection  Kind = "connection" // it is being made (again)
	Busy        Kind = "busy"       // at work for long
	Silent      Kind = "no answer"  // to the question what it waits for
	Absent      Kind = "absent"     // it has not come
	Replica     Kind = "replica"    // another has not confirmed
)

// Wait is one, as it is told.
type Wait struct {
	Who     string  `json:"who"`          // "worker 2", "server 1 lane 0"
	On      string  `json:"on,omitempty"` // whom it waits for
	Kind    Kind    `json:"why"`
	What    string  `json:"what,omitempty"` // in words
	Seconds float64 `json:"seconds"`        // since when; 0: it cannot tell
	// Because is what those wait for that this one waits for, as they say.
	Because []Wait `json:"because,omitempty"`

	many bool // Who are several: see alike
}

// mostShown of what is behind a wait, on its line.
const mostShown = 4

// String is one line.
func (w *Wait) String() string {
	var b strings.Builder
	w.write(&b, 0)
	return b.String()
}

// maxDepth bounds what is believed of others' others.
const maxDepth = 4

func (w *Wait) write(b *strings.Builder, depth int) {
	b.WriteString(w.Who)
	switch {
	case w.On != "" && w.many:
		b.WriteString(" wait for " + w.On)
	case w.On != "":
		b.WriteString(" waits for " + w.On)
	}
	if w.Seconds > 0 {
		b.WriteString(" since " + seconds(w.Seconds))
	}
	fmt.Fprintf(b, ": %s", w.Kind)
	if w.What != "" {
		fmt.Fprintf(b, " (%s)", w.What)
	}
	if depth == maxDepth {
		return
	}
	for i := range w.Because {
		if i == mostShown {
			fmt.Fprintf(b, "; and %d more", len(w.Because)-mostShown)
			return
		}
		b.WriteString("; ")
		w.Because[i].write(b, depth+1)
	}
}

func seconds(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.1f s", s)
	}
	return fmt.Sprintf("%.0f s", s)
}

// List names some and counts the rest: "worker 1, worker 4 and 7 more".
func List(names []string) string {
	if len(names) <= mostShown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostShown], ", "), len(names)-mostShown)
}
