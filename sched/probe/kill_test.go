package probe

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// TestKilledLeavesNothing: a process that is killed while it meters leaves no
// program in the kernel.
func TestKilledLeavesNothing(t *testing.T) {
	requireMetering(t)
	c := spawn(t, "hold", 0)
	c.say(t, "go")
	var ids []ebpf.ProgramID
	select {
	case line := <-c.lines:
		if err := json.Unmarshal(line, &ids); err != nil || len(ids) != 2 {
			t.Fatalf("the meter's process says %q (%v), want two programs", line, err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no meter within 20 s")
	}
	for _, id := range ids {
		if !loaded(id) {
			t.Fatalf("program %d is not there while its process runs", id)
		}
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if !loaded(ids[0]) && !loaded(ids[1]) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("programs %v are still there 10 s after their process was killed", ids)
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
