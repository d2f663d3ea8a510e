package job

import (
	"strings"
	"testing"

	"psrt/sched/train"
	"psrt/sched/train/model"
)

// The sum that workers make among themselves is that of the servers, bit for bit:
// with running averages, with workers that have no examples in a step, and with
// groups that have replicas.
func TestSameDigestByAllReduce(t *testing.T) {
	base := sampleJob(t, model.DeepFM)
	base.Batch = 512 // the last has 440 rows: an eighth worker has none of them
	want := run(t, *base, "shm")
	for _, l := range []struct {
		servers, lanes, workers, replicas int
		transport                         string
	}{
		{1, 1, 1, 0, "shm"}, {2, 2, 2, 0, "shm"}, {1, 2, 3, 0, "shm"}, {3, 1, 4, 0, "shm"}, {1, 1, 8, 0, "shm"},
		{1, 1, 2, 0, "tcp"}, {2, 1, 3, 0, "tcp"}, {1, 2, 4, 0, "tcp"}, {2, 1, 2, 2, "shm"},
	} {
		j := *base
		j.Dense, j.Servers, j.Lanes, j.Workers, j.Replicas = train.DenseAllReduce, l.servers, l.lanes, l.workers, l.replicas
		if l.replicas > 0 {
			j.Groups, j.AllowSameHost = 3, true
		}
		if res := run(t, j, l.transport); res.Digest != want.Digest || *res.AUC != *want.AUC {
			t.Errorf("%+v: digest %s, AUC %v; with --dense ps %s, %v", l, res.Digest, *res.AUC, want.Digest, *want.AUC)
		}
	}
}

// Outside BSP sparse rows are stale and dense values are not: every worker ends with
// those of the servers, which the run itself checks.
func TestAllReduceWithStaleRows(t *testing.T) {
	for _, sync := range []string{train.ASP, train.SSP} {
		j := sampleJob(t, model.DeepFM)
		j.Dense, j.Sync, j.Workers, j.Servers, j.Lanes = train.DenseAllReduce, sync, 3, 2, 2
		if sync == train.SSP {
			j.Staleness = 2
		}
		if res := run(t, *j, "shm"); *res.AUC < 0.6 {
			t.Errorf("%s: test AUC %.4f: nothing was learnt", sync, *res.AUC)
		}
	}
}

func TestAllReduceIsRefused(t *testing.T) {
	j := sampleJob(t, model.FM)
	j.Dense = "sometimes"
	if err := j.Validate(); err == nil || !strings.Contains(err.Error(), "sometimes") {
		t.Errorf("an unknown way: %v", err)
	}
}
