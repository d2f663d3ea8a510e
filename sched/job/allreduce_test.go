package job

import (
	"strings"
	"testing"

	"psrt/sched/audit"
	"psrt/sched/compress"
	"psrt/sched/densesplit"
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
	for _, l := range some([]struct {
		servers, lanes, workers, replicas int
		transport                         string
	}{
		{1, 1, 1, 0, "shm"}, {2, 2, 2, 0, "shm"}, {1, 2, 3, 0, "shm"}, {3, 1, 4, 0, "shm"}, {1, 1, 8, 0, "shm"},
		{1, 1, 2, 0, "tcp"}, {2, 1, 3, 0, "tcp"}, {1, 2, 4, 0, "tcp"}, {2, 1, 2, 2, "shm"},
	}) {
		j := *base
		j.Dense, j.Servers, j.Lanes, j.Workers, j.Replicas = train.DenseAllReduce, l.servers, l.lanes, l.workers, l.replicas
		if l.replicas > 0 {
			j.Groups, j.AllowSameHost = 3, true
		}
		res := run(t, j, l.transport)
		if res.Digest != want.Digest || *res.AUC != *want.AUC {
			t.Errorf("%+v: digest %s, AUC %v; with --dense ps %s, %v", l, res.Digest, *res.AUC, want.Digest, *want.AUC)
		}
		// Of servers with replicas each group tells, and processes are counted once.
		seen := map[string]bool{}
		for _, r := range res.Ranks {
			if seen[r.Rank] || r.PeakRSSBytes <= 0 || !(r.CPUSeconds > 0) {
				t.Errorf("%+v: %+v of %+v", l, r, res.Ranks)
			}
			seen[r.Rank] = true
		}
		if len(seen) > l.servers+l.workers || l.replicas == 0 && len(seen) < l.servers+l.workers {
			t.Errorf("%+v: %+v", l, res.Ranks)
		}
		for i, s := range res.ServerUse {
			if chained := l.replicas > 0; s.Server >= l.servers || chained != (s.Group != nil) || chained && *s.Group != i {
				t.Errorf("%+v: group %d: %+v", l, i, s)
			}
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

// TestSameDigestInBuckets: a vector that is added in many calls is the vector that is added
// in one, and what is measured is agreed on.
func TestSameDigestInBuckets(t *testing.T) {
	base := sampleJob(t, model.DeepFM)
	base.Batch, base.Model.Hidden = 512, []int{512, 256}
	want := run(t, *base, "shm")
	for _, l := range some([]struct {
		dense     string
		workers   int
		transport string
		bytes     int // -1: measured
		loss      string
	}{
		{train.DenseAllReduce, 2, "shm", 32 << 10, ""}, {train.DenseAllReduce, 3, "tcp", 100 << 10, train.LossContinue},
		{train.DenseMixed, 3, "shm", 48 << 10, ""}, {train.DenseAllReduce, 2, "tcp", -1, ""}, {train.DenseAllReduce, 3, "shm", -1, train.LossContinue},
	}) {
		j := *base
		j.Dense, j.Servers, j.Lanes, j.Workers, j.OnWorkerLoss = l.dense, 2, 2, l.workers, l.loss
		if l.bytes >= 0 {
			j.DenseBucket = &l.bytes
		}
		if l.dense == train.DenseMixed {
			j.DenseMeasured = &densesplit.Measured{Servers: 1, Reduce: 1}
		}
		res := run(t, j, l.transport)
		if res.Digest != want.Digest || *res.AUC != *want.AUC {
			t.Errorf("%+v: digest %s, AUC %v; with --dense ps %s, %v", l, res.Digest, *res.AUC, want.Digest, *want.AUC)
		}
		use := res.DenseSums
		if l.bytes >= 0 && (use.BucketBytes != l.bytes || use.Buckets != nil) || l.bytes < 0 && len(use.Buckets) < 2 {
			t.Errorf("%+v: buckets of %d bytes, measured %+v, of %d", l, use.BucketBytes, use.Buckets, use.VectorBytes)
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

// Blocks that workers add and blocks that servers add make the same model, however the
// vector is split: measured, and as told.
func TestSameDigestMixed(t *testing.T) {
	base := sampleJob(t, model.DeepFM)
	base.Batch, base.Model.Hidden = 512, []int{512, 128}
	want := run(t, *base, "shm")
	partly := 0
	for _, l := range []struct {
		servers, lanes, workers int
		transport               string
		measured                *densesplit.Measured
	}{
		{1, 1, 2, "shm", nil}, {2, 2, 3, "shm", nil}, {2, 2, 3, "tcp", nil},
		{2, 2, 2, "shm", &densesplit.Measured{Servers: 1, Reduce: 1}},
		{3, 1, 4, "tcp", &densesplit.Measured{Servers: 2, Reduce: 1}},
		{2, 1, 1, "shm", &densesplit.Measured{Servers: 1, Reduce: 1}},
		{1, 2, 2, "shm", &densesplit.Measured{Servers: 1, Reduce: 1e6}},
		{1, 2, 2, "shm", &densesplit.Measured{Servers: 1e6, Reduce: 1}},
	} {
		j := *base
		j.Dense, j.Servers, j.Lanes, j.Workers, j.DenseMeasured = train.DenseMixed, l.servers, l.lanes, l.workers, l.measured
		res := run(t, j, l.transport)
		if res.Digest != want.Digest || *res.AUC != *want.AUC {
			t.Errorf("%+v: digest %s, AUC %v; with --dense ps %s, %v", l, res.Digest, *res.AUC, want.Digest, *want.AUC)
		}
		use := res.DenseSums.Mixed
		if use.Measured.Servers <= 0 || use.Measured.Reduce <= 0 || l.measured != nil && use.Measured != *l.measured {
			t.Errorf("%+v: %+v", l, use)
		}
		if use.Share > 0 && use.Share < 1 {
			partly++
		}
	}
	if partly < 3 {
		t.Errorf("%d of the jobs used both ways, want the three that were told to", partly)
	}
}

func TestMixedIsRefused(t *testing.T) {
	for what, change := range map[string]func(*train.Job){
		"consistency": func(j *train.Job) { j.Sync = train.ASP },
		"replicas":    func(j *train.Job) { j.Servers, j.Replicas, j.Groups, j.AllowSameHost = 2, 2, 4, true },
		"compress":    func(j *train.Job) { j.Compress.Code = compress.Byte },
		"audit":       func(j *train.Job) { j.Audit = &audit.Config{Dir: t.TempDir()} },
	} {
		j := sampleJob(t, model.FM)
		if j.Dense = train.DenseMixed; j.Validate() != nil {
			t.Fatal(j.Validate())
		}
		change(j)
		if err := j.Validate(); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "--dense allreduce") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
