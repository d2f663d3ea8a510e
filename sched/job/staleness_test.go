package job

import (
	"testing"

	"psrt/sched/train"
)

// What is seen of staleness is within what each mode says, and of all pulls.
func TestStalenessSeen(t *testing.T) {
	for _, c := range []struct {
		sync      string
		staleness int
		most      int // counts
	}{{train.BSP, 0, 1}, {train.SSP, 2, 3}, {train.ASP, 0, 65}} {
		j := *sampleJob(t, "fm")
		j.Sync, j.Staleness, j.Batch, j.Servers, j.Workers = c.sync, c.staleness, 64, 2, 2
		res := run(t, j, "shm")
		steps := uint64(res.Epochs[0].Rows+63) / 64 * uint64(len(res.Epochs))
		if n := res.StalenessSeen.Pulls(); n < steps*uint64(j.Workers) || len(res.StalenessSeen) > c.most {
			t.Errorf("%s, staleness %d: %v, of %d pulls in %d steps of %d workers", c.sync, c.staleness, res.StalenessSeen, n, steps, j.Workers)
		}
		t.Logf("%s: %v", c.sync, res.StalenessSeen)
	}
}
