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
		j := sampleJob(t, model.DeepFM)
		j.Model.BatchNorm = true
		j.Sync, j.Workers, j.Servers, j.Lanes, j.Combine = sync, 3, 2, 2, train.CombineHost
		if sync == train.SSP {
			j.Staleness = 2
		}
		if res := run(t, *j, "tcp"); *res.AUC < 0.6 {
			t.Errorf("%s: test AUC %.4f: nothing was learnt", sync, *res.AUC)
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
