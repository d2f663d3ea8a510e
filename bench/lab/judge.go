package lab

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// maxHeld bounds what is held of a test program's output until it is known
// whether it is wanted; what is older is dropped.
const maxHeld = 4 << 20

// judge takes a test program's output (-test.v) and decides.
type judge struct {
	w       io.Writer
	verbose bool
	mayskip bool
	partial []byte
	held    []string
	bytes   int
	dropped int
	ran     int
	skips   []string
}

// Write takes a piece of the output.
func (j *judge) Write(p []byte) (int, error) {
	j.partial = append(j.partial, p...)
	for {
		line, rest, found := bytes.Cut(j.partial, []byte{'\n'})
		if !found && len(j.partial) < maxHeld/4 {
			return len(p), nil
		}
		j.line(string(line))
		j.partial = rest
	}
}

func (j *judge) line(line string) {
	trimmed := strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(trimmed, "--- SKIP: "):
		name, _, _ := strings.Cut(strings.TrimPrefix(trimmed, "--- SKIP: "), " ")
		j.skips = append(j.skips, name)
		j.ran++
	case strings.HasPrefix(trimmed, "--- PASS: "), strings.HasPrefix(trimmed, "--- FAIL: "):
		j.ran++
	}
	if j.verbose {
		fmt.Fprintln(j.w, line)
		return
	}
	for _, noise := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME ", "--- PASS: "} {
		if strings.HasPrefix(trimmed, noise) {
			return
		}
	}
	j.held = append(j.held, line)
	for j.bytes += len(line) + 1; j.bytes > maxHeld; j.dropped++ {
		j.bytes -= len(j.held[0]) + 1
		j.held = j.held[1:]
	}
}

// close prints the verdict.
func (j *judge) close(name string, code int, took time.Duration) bool {
	if len(j.partial) > 0 {
		j.line(string(j.partial))
		j.partial = nil
	}
	reason := ""
	switch {
	case code != 0:
		reason = fmt.Sprintf("exit code %d", code)
	case len(j.skips) > 0 && !j.mayskip:
		reason = "skipped, which the lab does not allow: " + strings.Join(j.skips, ", ")
	case j.ran == 0:
		reason = "no test ran"
	}
	if reason == "" {
		fmt.Fprintf(j.w, "ok  \t%s\t%.3fs\n", name, took.Seconds())
		return true
	}
	if j.dropped > 0 {
		fmt.Fprintf(j.w, "(%d lines of output before these are left out)\n", j.dropped)
	}
	for _, line := range j.held {
		fmt.Fprintln(j.w, line)
	}
	fmt.Fprintf(j.w, "FAIL\t%s\t%.3fs (in the lab: %s)\n", name, took.Seconds(), reason)
	return false
}
