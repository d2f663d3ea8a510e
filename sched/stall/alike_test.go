package stall

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// What one death makes wait is told in a line for each cause, not for each group.
func TestOneCauseIsOneLine(t *testing.T) {
	w, s := watch(time.Minute)
	var waits []Wait
	for g := range 7 {
		waits = append(waits, Wait{Who: fmt.Sprintf("group %d at server 0", g), On: "server 2", Kind: Replica, What: fmt.Sprintf("push %d", g), Seconds: 80 - float64(g)})
	}
	for g := range 2 {
		waits = append(waits, Wait{Who: "worker 1", On: fmt.Sprintf("the head of group %d", g), Kind: Connection, What: fmt.Sprintf("socket %d", g), Seconds: 70 - float64(g)})
	}
	waits = append(waits, Wait{Who: "group 3 at server 0", On: "worker 0", Kind: Clock, Seconds: 62},
		Wait{Who: "server 0 lane 3", On: "its disks", Kind: Disk, Seconds: 61.6}, Wait{Who: "server 1 lane 3", On: "its disks", Kind: Disk, Seconds: 61.4},
		Wait{Who: "server 0 lane 1", Kind: Busy, Seconds: 61}, Wait{Who: "server 0 lane 2", Kind: Busy, Seconds: 60})
	now := waits
	w.From(func(_ context.Context, _ time.Duration) []Wait { return now })
	w.look(t.Context())
	want := []string{
		"stall: group 0 at server 0, group 1 at server 0, group 2 at server 0, group 3 at server 0 and 3 more wait for server 2 since 80 s: replica (push 0)",
		"stall: worker 1 waits for the head of group 0, the head of group 1 since 70 s: connection (socket 0)",
		"stall: group 3 at server 0 waits for worker 0 since 62 s: clock",
		"stall: server 0 lane 3 waits for its disks since 62 s: disk",
		"stall: server 1 lane 3 waits for its disks since 61 s: disk",
		"stall: server 0 lane 1 since 61 s: busy",
		"stall: server 0 lane 2 since 60 s: busy",
	}
	if l := s.all(); !slices.Equal(l, want) {
		t.Fatalf("%s\nwant\n%s", strings.Join(l, "\n"), strings.Join(want, "\n"))
	}
	if all := w.Current(t.Context()); len(all) != len(waits) {
		t.Errorf("asked, it tells of %d of %d", len(all), len(waits))
	}
	now = nil
	w.look(t.Context())
	for i, l := range s.all()[len(want):] {
		if over := strings.Replace(want[i], "stall: ", "stall over: ", 1); l != over {
			t.Errorf("%s\nwant\n%s", l, over)
		}
	}
	if n := len(s.all()); n != 2*len(want) {
		t.Errorf("%d lines", n)
	}
}

// What is behind waits of one cause is told once.
func TestOneCauseBehind(t *testing.T) {
	behind := []Wait{{Who: "server 1", On: "its disks", Kind: Disk}, {Who: "server 2", On: "its disks", Kind: Disk}}
	got := alike([]Wait{{Who: "worker 0", On: "server 1", Kind: Completion, Because: behind}, {Who: "worker 1", On: "server 1", Kind: Completion, Because: behind}}, 0)
	if len(got) != 1 || got[0].String() != "worker 0, worker 1 wait for server 1: no completion; server 1 waits for its disks: disk; server 2 waits for its disks: disk" {
		t.Errorf("%+v", got)
	}
}
