package job

import (
	"path/filepath"
	"slices"
	"testing"

	"psrt/sched/compress"
	"psrt/sched/train"
	"psrt/sched/train/model"
	"psrt/tiers/policy"
)

// That a host pulls and pushes as one changes nothing in the model.
func TestSameDigestCombined(t *testing.T) {
	for _, kind := range []string{model.DeepFM, model.FM} {
		base := sampleJob(t, kind)
		base.Batch = 512 // the last has 440 rows: an eighth worker has none of them
		want := run(t, *base, "shm")
		for _, l := range []struct {
			servers, lanes, workers, threads, replicas int
			transport                                  string
			hosts                                      int
		}{
			{1, 1, 2, 1, 0, "shm", 1}, {2, 2, 2, 2, 0, "tcp", 1}, {2, 1, 3, 1, 0, "shm", 1}, {1, 2, 8, 1, 0, "shm", 1}, {3, 1, 4, 1, 2, "shm", 1},
		} {
			j := *base
			j.Combine = train.CombineHost
			j.Servers, j.Lanes, j.Workers, j.Threads, j.Replicas = l.servers, l.lanes, l.workers, l.threads, l.replicas
			if l.replicas > 0 {
				j.Groups, j.AllowSameHost = 3, true
			}
			res := run(t, j, l.transport)
			if res.Digest != want.Digest || *res.AUC != *want.AUC {
				t.Errorf("%s, %+v: digest %s, AUC %v; each for itself %s, %v", kind, l, res.Digest, *res.AUC, want.Digest, *want.AUC)
			}
			c := res.Combined
			if c == nil || len(c.Hosts) != l.hosts || len(slices.Concat(c.Hosts...)) != l.workers || c.RowsPulled >= c.RowsAsked || c.RowsPushed >= c.RowsGiven {
				t.Errorf("%s, %+v: the result says %+v of the hosts", kind, l, c)
			}
		}
	}
}

// The workers of a host give their part of the dense sums as one: the model is that of each
// for itself, of servers that add, and of a job that goes on from a checkpoint.
func TestSameDigestCombinedAndReduced(t *testing.T) {
	base := sampleJob(t, model.DeepFM)
	base.Batch = 512
	want := run(t, *base, "shm")
	for _, l := range some([]struct {
		servers, lanes, workers, replicas int
		transport                         string
		bucket                            int
	}{
		{2, 2, 2, 0, "tcp", 0}, {1, 2, 8, 0, "shm", 4096}, {3, 2, 3, 0, "tcp", 0}, {3, 1, 4, 2, "shm", 0},
	}) {
		j := *base
		j.Combine, j.Dense, j.DenseBucket = train.CombineHost, train.DenseAllReduce, &l.bucket
		j.Servers, j.Lanes, j.Workers, j.Replicas = l.servers, l.lanes, l.workers, l.replicas
		if l.replicas > 0 {
			j.Groups, j.AllowSameHost = 3, true
		}
		j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 7}
		res := run(t, j, l.transport)
		if res.Digest != want.Digest || *res.AUC != *want.AUC {
			t.Errorf("%+v: digest %s, AUC %v; each for itself, and servers add, %s, %v", l, res.Digest, *res.AUC, want.Digest, *want.AUC)
		}
		if res.DenseSums == nil || res.Combined == nil || len(res.Combined.Hosts) != 1 {
			t.Errorf("%+v: dense sums %+v, hosts %+v", l, res.DenseSums, res.Combined)
		}
		j.Checkpoint.Resume = true
		j.Epochs = base.Epochs + 1
		again := *base
		again.Epochs = j.Epochs
		if got, want := run(t, j, l.transport), run(t, again, "shm"); got.Digest != want.Digest {
			t.Errorf("%+v: resumed, digest %s, undisturbed %s", l, got.Digest, want.Digest)
		}
	}
}

// Where pushes are compressed a host's sum is what is rounded: the model is that of one
// worker with the host's examples.
func TestCombinedIsRoundedOnce(t *testing.T) {
	base := *sampleJob(t, model.DeepFM)
	base.Compress.Code = compress.Half
	want := run(t, base, "shm")
	for _, workers := range []int{2, 3} {
		j := base
		j.Workers, j.Combine = workers, train.CombineHost
		res := run(t, j, "shm")
		if res.Digest != want.Digest || res.Combined == nil {
			t.Errorf("%d workers: digest %s, of one %s; %+v", workers, res.Digest, want.Digest, res.Combined)
		}
		if got, one := res.Compress, want.Compress; got.FloatBytes != one.FloatBytes || got.PackedBytes != one.PackedBytes {
			t.Errorf("%d workers: compressed %+v, one %+v", workers, got, one)
		}
	}
}

// Outside BSP hosts are steps apart, and the workers of one are not; and what the servers
// take of one worker is the whole batch's.
func TestCombinedWithStaleValues(t *testing.T) {
	for _, sync := range []string{train.ASP, train.SSP} {
		for _, dense := range []string{train.DensePS, train.DenseAllReduce} {
			j := sampleJob(t, model.DeepFM)
			j.Model.BatchNorm = true
			j.Sync, j.Workers, j.Servers, j.Lanes, j.Combine, j.Dense = sync, 3, 2, 2, train.CombineHost, dense
			if sync == train.SSP {
				j.Staleness = 2
			}
			if res := run(t, *j, "tcp"); *res.AUC < 0.6 {
				t.Errorf("%s, %s: test AUC %.4f: nothing was learnt", sync, dense, *res.AUC)
			}
		}
	}
}

// Rows on disks are announced for the host, and come from a checkpoint; the digest is that
// of each worker for itself in memory.
func TestCombinedOnDisks(t *testing.T) {
	base := *sampleJob(t, model.FM)
	base.Data = []string{wideFile(t, "wide.libffm", 6000, 1<<40)}
	base.Model.Fields, base.Model.Dim = 3, 128
	base.Batch, base.Dataset = 50, "queue"
	want := run(t, base, "shm")
	j := base
	j.Workers, j.Combine = 3, train.CombineHost
	j.MaxBytes = want.ServerUse[0].TableBytes / 5
	j.LookAhead = train.LookAhead
	j.Storage = &train.Storage{Dirs: []string{t.TempDir()}, Policy: policy.NameBelady}
	j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 40, Deltas: 2}
	res := run(t, j, "shm")
	if res.Digest != want.Digest || *res.AUC != *want.AUC {
		t.Errorf("digest %s, AUC %v; in memory %s, %v", res.Digest, *res.AUC, want.Digest, *want.AUC)
	}
	if s := res.Pipeline.Stages; len(s) != 5 || s[1].Name != "announce" || !(s[1].Mean > 0) {
		t.Errorf("announcements take no time: %+v", s)
	}
	if s := res.Storage; s == nil || res.ServerUse[0].AnnouncedKeys == 0 || res.Checkpoints == nil || res.Checkpoints.Written == 0 {
		t.Errorf("on disks: %+v; %d keys announced; checkpoints %+v", s, res.ServerUse[0].AnnouncedKeys, res.Checkpoints)
	}
}
