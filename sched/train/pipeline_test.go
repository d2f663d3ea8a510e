package train

import (
	"testing"

	"psrt/sched/clock"
	"psrt/tiers/table"
)

// Two pushes may be unanswered where nothing counts on the one before having arrived, and
// batches are as many as a line then has in use.
func TestPushes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Job)
		want   int
	}{
		"asp":           {func(*Job) {}, pushesASP},
		"bsp":           {func(j *Job) { j.Sync = BSP }, pushesLeft},
		"ssp":           {func(j *Job) { j.Sync, j.Staleness = SSP, 3 }, pushesLeft},
		"one table bsp": {func(j *Job) { j.TableSync = map[string]clock.Mode{DenseTable: clock.Fixed(0)} }, pushesLeft},
		"one, replaced": {func(j *Job) {
			j.OnWorkerLoss, j.TableSync = LossRestart, map[string]clock.Mode{DenseTable: clock.Fixed(0)}
		}, pushesNone},
		"days":        {func(j *Job) { j.Lifecycle = &table.Lifecycle{} }, pushesLeft},
		"checkpoints": {func(j *Job) { j.Checkpoint = &Checkpoint{} }, pushesLeft},
		"all-reduce":  {func(j *Job) { j.Dense = DenseAllReduce }, pushesLeft},
		"dense ranks": {func(j *Job) { j.Heter = 1 }, pushesLeft},
		"hosts":       {func(j *Job) { j.Combine = CombineHost }, pushesLeft},
		"takeovers":   {func(j *Job) { j.OnWorkerLoss = LossContinue }, pushesASP},
		"of ranges":   {func(j *Job) { j.OnWorkerLoss, j.Sharding = LossRestart, ShardDynamic }, pushesLeft},
		"of merged":   {func(j *Job) { j.OnWorkerLoss, j.Compress.Merge = LossRestart, 2 }, pushesLeft},
	} {
		j := &Job{Sync: ASP, Workers: 2, Servers: 1, Lanes: 1}
		c.change(j)
		if got := j.newLine().Pushes; got != c.want || j.sets(1) != 2+c.want {
			t.Errorf("%s: %d pushes, %d batches, want %d and %d", name, got, j.sets(1), c.want, 2+c.want)
		}
	}
}
