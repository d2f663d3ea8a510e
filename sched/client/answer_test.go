package client

import (
	"strings"
	"testing"

	"psrt/sched/psmsg"
)

// What helps is said once: by the client where a table is full, by the server where its
// device is too small for a batch.
func TestRemedied(t *testing.T) {
	if got := remedied(" (the table's budget is used up)"); !strings.HasSuffix(got, "raise --mem-budget, add servers or use a smaller dimension") {
		t.Error(got)
	}
	if got := remedied(" (ssd: the store is full: limit 9 bytes)"); !strings.HasSuffix(got, "; raise --ssd-limit, add servers or use a smaller dimension") {
		t.Errorf("of a full disk %q is said", got)
	}
	if got := remedied(" (ssd: the store is full: limit 9 bytes; growing failed: no space left on device)"); !strings.HasSuffix(got, "; free room on the disks of --ssd, add servers or use a smaller dimension") {
		t.Errorf("of a full file system %q is said", got)
	}
	lost := (&RefusedError{Server: 3, Code: psmsg.CodeNoMemory}).because(` (hbm: table "t": GPU 0 has failed: cuda: launch failed)`)
	if got := lost.Error(); !strings.Contains(got, "server 3 has lost rows with the device that they were on (hbm") || strings.Contains(got, "memory") || !strings.Contains(got, "resume from that") {
		t.Errorf("lost: %q", got)
	}
	if got := remedied(" (9 rows fit; use smaller batches or raise --hbm-budget)"); strings.Contains(got, "--mem-budget") {
		t.Error(got)
	}
}
