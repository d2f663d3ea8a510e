package probe

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// TestKilledLeavesNothing: a process that is killed while it meters by all that
// there is leaves no program in the kernel.
func TestKilledLeavesNothing(t *testing.T) {
	requireMetering(t)
	c := spawn(t, "hold", 0)
	c.say(t, "go")
	want := 3
	if hasPoints(t) {
		want = 5
	}
	var ids []ebpf.ProgramID
	select {
	case line := <-c.lines:
		if err := json.Unmarshal(line, &ids); err != nil || len(ids) != want {
			t.Fatalf("the meters' process says %q (%v), want %d programs", line, err, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("no meter within a minute")
	}
	for _, id := range ids {
		if !loaded(id) {
			t.Fatalf("program %d is not there while its process runs", id)
		}
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if !slices.ContainsFunc(ids, loaded) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("programs %v are still there a minute after their process was killed", ids)
		}
	}
}

func loaded(id ebpf.ProgramID) bool {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return false
	}
	p.Close()
	return true
}
