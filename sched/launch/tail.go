package launch

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

const (
	tailLines    = 20
	tailLineSize = 500
)

// tail keeps the last lines written to it, and the first one that gives the reason of a death; bounded
// in number and length.
type tail struct {
	mu      sync.Mutex
	lines   []string
	reason  string // the first line that gives one, once it is not among lines any more
	partial []byte
	forward func(line string) // may be nil; called with complete lines
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			if room := tailLineSize - len(t.partial); room > 0 {
				t.partial = append(t.partial, p[:min(room, len(p))]...)
			}
			break
		}
		if room := tailLineSize - len(t.partial); room > 0 {
			t.partial = append(t.partial, p[:min(room, i)]...)
		}
		t.add(string(t.partial))
		t.partial = t.partial[:0]
		p = p[i+1:]
	}
	return n, nil
}

func (t *tail) add(line string) {
	if len(t.lines) == tailLines {
		if t.reason == "" && givesReason(t.lines[0]) {
			t.reason = t.lines[0]
		}
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, line)
	if t.forward != nil {
		t.forward(line)
	}
}

// reasonPrefixes begin the line in which a Go or C program gives the reason of its end; a trace of any length follows.
var reasonPrefixes = []string{"panic: ", "fatal error: ", "runtime: ", "unexpected fault address", "terminate called", "*** ", "psrt: "}

func givesReason(line string) bool {
	return slices.ContainsFunc(reasonPrefixes, func(r string) bool { return strings.HasPrefix(line, r) })
}

// last returns what is kept, the reason first, an unfinished line included.
func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	if t.reason != "" {
		out = append(out, t.reason, "…")
	}
	out = append(out, t.lines...)
	if len(t.partial) > 0 {
		out = append(out, string(t.partial))
	}
	return out
}
