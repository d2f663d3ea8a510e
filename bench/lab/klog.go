package lab

import (
	"bytes"
	"regexp"
	"strings"
)

// kernelLog takes the machine's console line by line: it keeps the end of it
// and what the kernel complains of.
type kernelLog struct {
	partial  []byte
	recent   []string // at most maxRecent
	findings []string // at most maxFindings
	open     int      // lines that still belong to the last finding
	stalled  []string // a stall that nobody is blamed for yet
	stallFor int
}

const (
	maxRecent   = 40
	maxFindings = 200
	// traceLines is how much of a report is kept after its first line.
	traceLines = 40
	endOfTrace = "---[ end trace"
)

var (
	// clock is the time in front of a line, and who printed it.
	clock = regexp.MustCompile(`^(<\d+>)?\[\s*\d+\.\d+\](\[\s*[CT]\d+\])? ?`)
	// fault are the first lines of reports of which any one is a failure.
	fault = regexp.MustCompile(`^(BUG: (unable|kernel NULL|KASAN|scheduling|sleeping|Bad |workqueue lockup|stack guard|corrupted)|` +
		`kernel BUG at|Oops|WARNING: |general protection fault|Kernel panic|Unable to handle|` +
		`list_(add|del) corruption|refcount_t:|double fault|traps: PANIC|DEADLOCK|INFO: possible|UBSAN|KFENCE|Out of memory: )`)
	// stall are reports that a busy host may cause, too: a failure only if the
	// trace that follows is in RDMA code.
	stall = regexp.MustCompile(`(BUG: soft lockup|watchdog: .*lockup|rcu: INFO: .*stall|INFO: rcu.*stall|INFO: task .* blocked)`)
	// rdma is a frame of the RDMA stack in a trace.
	rdma = regexp.MustCompile(`\[(rdma_rxe|ib_uverbs|ib_core|rdma_cm|rdma_ucm|ib_cm|iw_cm)\]`)
)

// Write takes a piece of the console.
func (k *kernelLog) Write(p []byte) (int, error) {
	k.partial = append(k.partial, p...)
	for {
		line, rest, found := bytes.Cut(k.partial, []byte{'\n'})
		if !found {
			if len(k.partial) > 1<<16 {
				k.partial = nil // no line of a kernel is so long
			}
			return len(p), nil
		}
		k.line(strings.TrimRight(string(line), "\r"))
		k.partial = rest
	}
}

func (k *kernelLog) line(line string) {
	if line = strings.TrimSpace(line); line == "" || strings.HasSuffix(line, "reboot: Power down") {
		return
	}
	if k.recent = append(k.recent, line); len(k.recent) > maxRecent {
		k.recent = k.recent[1:]
	}
	text := clock.ReplaceAllString(line, "")
	switch {
	case fault.MatchString(text):
		k.open = traceLines
		k.keep(line)
	case k.open > 0:
		if k.open--; strings.Contains(text, endOfTrace) {
			k.open = 0
		}
		k.keep(line)
	case stall.MatchString(text):
		k.stalled, k.stallFor = []string{line}, 2*traceLines
	case k.stallFor > 0:
		k.stallFor--
		k.stalled = append(k.stalled, line)
		if rdma.MatchString(text) {
			for _, l := range k.stalled {
				k.keep(l)
			}
			k.stalled, k.open, k.stallFor = nil, traceLines, 0
		}
	}
}

func (k *kernelLog) keep(line string) {
	if len(k.findings) < maxFindings {
		k.findings = append(k.findings, line)
	}
}
