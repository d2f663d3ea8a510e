package invariant

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

type fakeRun int

func (f fakeRun) Run() int { return int(f) }

func TestMainPassesStatusThrough(t *testing.T) {
	var out bytes.Buffer
	if got := runAndCheck(fakeRun(0), &out); got != 0 {
		t.Errorf("clean run: status %d, %s", got, out.String())
	}
	if got := runAndCheck(fakeRun(2), &out); got != 2 {
		t.Errorf("failed run: status %d, want the tests' own 2", got)
	}
}

func TestStrayGoroutineIsNamed(t *testing.T) {
	stop := make(chan struct{})
	started := make(chan struct{})
	go func() { close(started); <-stop }()
	<-started
	stray := strayGoroutines(0)
	close(stop)
	if len(stray) == 0 || !strings.Contains(strings.Join(stray, ""), "TestStrayGoroutineIsNamed") {
		t.Errorf("stray goroutine not reported: %q", stray)
	}
	deadline := time.Now().Add(settleTime)
	for len(goroutinesOf("psrt/rdma/invariant.TestStray")) > 0 {
		if time.Now().After(deadline) {
			t.Fatal("ended goroutine still reported")
		}
		time.Sleep(time.Millisecond)
	}
}
