package train

import (
	"strings"
	"testing"

	"psrt/sched/compress"
	"psrt/tiers/table"
)

// What is sent some steps late is part of the promised staleness: servers keep to the
// rest, and where there is none the job is refused.
func TestMergeWithinStaleness(t *testing.T) {
	for _, c := range []struct {
		job   Job
		bound int
		want  string
	}{
		{Job{Sync: ASP, Compress: compress.Choice{Merge: 8}}, -1, ""},
		{Job{Sync: ASP, Optimizer: table.Optimizer{Kind: table.AdaGrad}, Compress: compress.Choice{Merge: 4, MergeAuto: true}}, -1, ""},
		{Job{Sync: ASP, Optimizer: table.Optimizer{Kind: table.Adam}, Compress: compress.Choice{Merge: 4, MergeAuto: true}}, -1, "use sgd or adagrad"},
		{Job{Sync: SSP, Staleness: 4, Compress: compress.Choice{Merge: 3}}, 2, ""},
		{Job{Sync: SSP, Staleness: 4}, 4, ""},
		{Job{Sync: SSP, Staleness: 2, Compress: compress.Choice{Merge: 3}}, 0, "--staleness 3 or more"},
		{Job{Sync: BSP, Compress: compress.Choice{Merge: 2}}, 0, "--sync bsp"},
		{Job{Sync: ASP, Compress: compress.Choice{Merge: 2}, Storage: &Storage{}}, -1, "--ssd"},
		{Job{Sync: SSP, Staleness: 9, StalenessLeast: new(int), Compress: compress.Choice{Merge: 2}}, 8, "--staleness MIN-MAX"},
	} {
		err := c.job.validateMerge()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %d %+v: %v, want %q", c.job.Sync, c.job.Staleness, c.job.Compress, err, c.want)
		}
		if got := c.job.staleness(); got != c.bound {
			t.Errorf("%s %d %+v: servers are told %d, want %d", c.job.Sync, c.job.Staleness, c.job.Compress, got, c.bound)
		}
	}
}
