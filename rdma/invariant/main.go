package invariant

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Runner is *testing.M, named here so that production builds do not link the
// testing package.
type Runner interface{ Run() int }

// settleTime is how long Main waits for goroutines that are already on their
// way out.
const settleTime = 2 * time.Second

// Main runs the tests and returns the exit status for os.Exit: the tests' own,
// or 1 when they passed but left handles open or psrt goroutines running. Use
// it as
//
//	func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }
func Main(m Runner) int { return runAndCheck(m, os.Stderr) }

func runAndCheck(m Runner, stderr io.Writer) int {
	status := m.Run()
	if status != 0 {
		return status
	}
	leaked := Leaks()
	leaked = append(leaked, strayGoroutines(settleTime)...)
	for _, l := range leaked {
		fmt.Fprintf(stderr, "leak: %s\n", l)
	}
	if len(leaked) > 0 {
		fmt.Fprintf(stderr, "%d leaks: close every handle and end every goroutine that the tests made\n", len(leaked))
		return 1
	}
	return 0
}

// strayGoroutines returns the stacks of goroutines, other than the caller's,
// that run psrt code after settle has passed.
func strayGoroutines(settle time.Duration) []string {
	deadline := time.Now().Add(settle)
	for {
		stray := goroutinesOf("psrt/")
		if len(stray) == 0 || time.Now().After(deadline) {
			return stray
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func goroutinesOf(prefix string) []string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var stray []string
	for i, g := range strings.Split(string(buf), "\n\n") {
		// The first is the caller's own.
		if i > 0 && strings.Contains(g, "\n"+prefix) {
			stray = append(stray, g)
		}
	}
	return stray
}
