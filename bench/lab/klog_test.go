package lab

import (
	"slices"
	"strings"
	"testing"
)

const oops = `[   61.20] BUG: unable to handle page fault for address: ffffffffc0a3d000
[   61.21] #PF: supervisor instruction fetch in kernel mode
[   61.22] Oops: 0010 [#1] PREEMPT SMP NOPTI
[   61.23] CPU: 1 PID: 412 Comm: kworker/u4:3 Not tainted 6.1.0-56-amd64 #1
[   61.24]  rxe_responder+0x1da/0x2770 [rdma_rxe]
[   61.25] ---[ end trace 0000000000000000 ]---
`

const stallRDMA = `[   90.1] watchdog: BUG: soft lockup - CPU#0 stuck for 67s! [ksoftirqd/0:13]
[   90.2] Modules linked in: tun nvme rdma_ucm
[   90.3] Call Trace:
[   90.4]  rxe_completer+0x54/0xd30 [rdma_rxe]
[   90.5]  do_task+0x41/0xd0 [rdma_rxe]
`

const stallOther = `[   90.1] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
[   90.2] Call Trace:
[   90.3]  default_idle+0x10/0x20
`

const quiet = `[    0.5] mtrr: your CPUs had inconsistent fixed MTRR settings
[    1.5] infiniband rxe0: set active
[    2.0] systemd: WARNING in a word of another
[    2.1] rdma_rxe: unloading; no bug here: BUG tracker
`

func TestKernelLog(t *testing.T) {
	for name, c := range map[string]struct {
		log   string
		lines int
		holds string
	}{
		"quiet":         {quiet, 0, ""},
		"oops":          {quiet + oops + quiet, 6, "rxe_responder"},
		"panic":         {"[ 1.0] Kernel panic - not syncing: Fatal exception\n", 1, "panic"},
		"warning":       {"[    9.1][  T412] WARNING: CPU: 1 PID: 412 at drivers/infiniband/sw/rxe/rxe_pool.c:240 x+0x1/0x2 [rdma_rxe]\n", 1, "rxe_pool"},
		"list":          {"[ 9.1] list_del corruption. prev->next should be ff\n", 1, "list_del"},
		"refcount":      {"[ 9.1] refcount_t: underflow; use-after-free.\n", 1, "refcount"},
		"out of memory": {"[ 9.1] Out of memory: Killed process 12 (psrt)\n", 1, "psrt"},
		"stall in RDMA": {stallRDMA, 5, "rxe_completer"},
		"busy host":     {stallOther + quiet, 0, ""},
		"two":           {oops + quiet + oops, 12, "rxe_responder"},
		"carriage":      {strings.ReplaceAll(oops, "\n", "\r\n"), 6, "rxe_responder"},
	} {
		for _, chunk := range []int{1, 13, 1 << 20} {
			var k kernelLog
			for part := range slices.Chunk([]byte(c.log), chunk) {
				if n, err := k.Write(part); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
			if len(k.findings) != c.lines || !strings.Contains(strings.Join(k.findings, "\n"), c.holds) {
				t.Errorf("%s in pieces of %d: %d lines, want %d with %q: %q", name, chunk, len(k.findings), c.lines, c.holds, k.findings)
			}
		}
	}
}

func TestKernelLogBounds(t *testing.T) {
	var k kernelLog
	for range 1000 {
		if _, err := k.Write([]byte(oops)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if len(k.recent) > maxRecent || len(k.findings) > maxFindings || len(k.partial) > 1<<16 {
		t.Errorf("kept %d recent lines, %d findings and %d bytes", len(k.recent), len(k.findings), len(k.partial))
	}
}
