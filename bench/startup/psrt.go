package startup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"psrt/bench/child"
)

// said is what one process of psrt has let see.
type said struct {
	Err       string        `json:",omitempty"`
	Step      time.Duration // from its start until it reported the first epoch; 0: it did not
	Preflight time.Duration // that it says all connections took; 0: it does not
	Digest    string        // of the model; "" where it prints no result
}

var (
	epochLine     = regexp.MustCompile(`^epoch +1 `)
	preflightLine = regexp.MustCompile(`all reach each other \(tried in (\d+) ms\)`)
)

const (
	maxLine   = 1 << 20 // bytes
	lastLines = 5       // that explain an end
	// grace is for psrt to end its ranks when it is told to.
	grace = 15 * time.Second
)

// run runs psrt to its end.
func run(ctx context.Context, program child.Command, args []string) (s said, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it did not end within %v", patience))
	defer cancel()
	c := exec.CommandContext(ctx, program.Path, args...)
	c.Env = append(os.Environ(), program.Env...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = grace
	var result bytes.Buffer
	c.Stdout = &result
	stderr, err := c.StderrPipe()
	if err != nil {
		return s, err
	}
	// PR_SET_PDEATHSIG fires when the starting thread ends, so this one stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := time.Now()
	if err := c.Start(); err != nil {
		return s, fmt.Errorf("start: %w; make build makes it, --psrt names another", err)
	}
	var last []string
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		s.hear(lines.Text(), time.Since(began))
		if last = append(last, lines.Text()); len(last) > lastLines {
			last = last[1:]
		}
	}
	if err := c.Wait(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return s, fmt.Errorf("start: psrt %s: %w: %s", strings.Join(args, " "), err, strings.Join(last, "; "))
	}
	if result.Len() > 0 {
		var r struct {
			Digest string `json:"digest"`
		}
		if err := json.Unmarshal(result.Bytes(), &r); err != nil || r.Digest == "" {
			return s, fmt.Errorf("start: psrt's result has no digest (%v): %.200q", err, result.String())
		}
		s.Digest = r.Digest
	}
	return s, nil
}

// hear takes what a line says, at its time.
func (s *said) hear(line string, at time.Duration) {
	if s.Step == 0 && epochLine.MatchString(line) {
		s.Step = at
	}
	if m := preflightLine.FindStringSubmatch(line); m != nil {
		if ms, err := strconv.Atoi(m[1]); err == nil {
			s.Preflight = max(time.Duration(ms)*time.Millisecond, time.Microsecond) // it says whole ones
		}
	}
}
