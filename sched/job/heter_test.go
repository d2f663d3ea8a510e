package job

import (
	"testing"

	"psrt/sched/train"
	"psrt/sched/train/model"
)

// Dense layers on ranks of their own change nothing in the model: for any number of
// ranks of either kind, any transport, with replicas, and for models without layers.
func TestSameDigestHeter(t *testing.T) {
	for _, kind := range some([]string{model.DeepFM, model.DCN, model.FM}) {
		base := sampleJob(t, kind)
		base.Batch = 512 // the last has 440 rows: an eighth worker has none of them
		want := run(t, *base, "shm")
		for _, l := range some([]struct {
			servers, lanes, workers, dense, threads, replicas int
			transport                                         string
		}{
			{1, 1, 1, 1, 1, 0, "shm"}, {2, 1, 3, 1, 2, 0, "shm"}, {1, 2, 1, 2, 1, 0, "tcp"}, {1, 1, 2, 3, 2, 0, "shm"}, {1, 1, 4, 3, 1, 0, "tcp"},
			{2, 1, 2, 2, 1, 2, "shm"},
		}) {
			j := *base
			j.Servers, j.Lanes, j.Workers, j.Heter, j.Threads, j.Replicas = l.servers, l.lanes, l.workers, l.dense, l.threads, l.replicas
			if l.replicas > 0 {
				j.Groups, j.AllowSameHost = 3, true
			}
			res := run(t, j, l.transport)
			if res.Digest != want.Digest || *res.AUC != *want.AUC {
				t.Errorf("%s, %+v: digest %s, AUC %v; without dense ranks %s, %v", kind, l, res.Digest, *res.AUC, want.Digest, *want.AUC)
			}
			if res.Heter == nil || res.Heter.DenseRanks != l.dense || res.Heter.BytesUp == 0 || res.Heter.DenseBusy <= 0 {
				t.Errorf("%s, %+v: the result says %+v of the dense ranks", kind, l, res.Heter)
			}
		}
	}
}

// Outside BSP workers are steps apart.
func TestHeterWithStaleValues(t *testing.T) {
	for _, sync := range []string{train.ASP, train.SSP} {
		j := sampleJob(t, model.DeepFM)
		j.Sync, j.Workers, j.Heter, j.Servers, j.Lanes = sync, 3, 2, 2, 2
		if sync == train.SSP {
			j.Staleness = 2
		}
		if res := run(t, *j, "shm"); *res.AUC < 0.6 {
			t.Errorf("%s: test AUC %.4f: nothing was learnt", sync, *res.AUC)
		}
	}
}
