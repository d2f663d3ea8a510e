package job

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/compress"
	"psrt/sched/train"
	"psrt/tiers/policy"
)

// wideFile writes n rows of libffm text whose ids are hardly ever the same.
func wideFile(t *testing.T, name string, n int, ids uint64) string {
	t.Helper()
	rng := seedtest.Fixed(t, 7)
	var b strings.Builder
	for range n {
		label := rng.IntN(2)
		fmt.Fprintf(&b, "%d 0:%d:1 1:%d:1 2:%d:1\n", label, rng.Uint64N(ids), ids+rng.Uint64N(ids/10), 2*ids+rng.Uint64N(20))
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A model many times larger than the memory for it is the same, bit for bit, as
// one that is all in memory, whatever the policy and the layout, and through a
// checkpoint as well.
func TestSameDigestOnDisks(t *testing.T) {
	base := *sampleJob(t, "fm")
	const rows = 24_000
	base.Data = []string{wideFile(t, "wide.libffm", rows, 1<<40)}
	base.Model.Fields, base.Model.Dim = 3, 128
	base.Batch, base.Epochs, base.Dataset = 50, 2, "queue"
	want := run(t, base, "shm")
	for i, name := range []string{policy.NameBelady, policy.NameS3FIFO, policy.NameLRU} {
		t.Run(name, func(t *testing.T) {
			j := base
			j.Servers, j.Workers, j.Lanes = 1, 1+i%2, 1
			j.MaxBytes = want.ServerUse[0].TableBytes / 20
			j.LookAhead = train.LookAhead
			j.Storage = &train.Storage{Dirs: []string{t.TempDir()}, Policy: name}
			if i == 2 { // while it is saved
				j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 100, Deltas: 2}
			}
			res := run(t, j, "shm")
			if c := res.Checkpoints; c != nil && (c.Written == 0 || c.Failed > 0) {
				t.Errorf("checkpoints: %+v", *c)
			}
			if res.Digest != want.Digest || *res.AUC != *want.AUC || res.Features != want.Features {
				t.Errorf("%d rows, digest %s, AUC %v; in memory %d, %s, %v", res.Features, res.Digest, *res.AUC, want.Features, want.Digest, *want.AUC)
			}
			for _, s := range res.ServerUse {
				t.Logf("%d B in memory: %+v", j.MaxBytes, *s.Tables[0].Tiers)
			}
			for _, d := range j.Storage.Dirs {
				if left, err := os.ReadDir(d); err != nil || len(left) > 0 {
					t.Errorf("%d things are left in a directory (%v)", len(left), err)
				}
			}
		})
	}
}

// What topk has kept goes in steps of the same rows whether they are all in memory or
// not, so that the model is the same.
func TestSameDigestOnDisksByTopK(t *testing.T) {
	base := *sampleJob(t, "fm")
	base.Data = []string{wideFile(t, "wide.libffm", 6000, 1<<40)}
	base.Model.Fields, base.Model.Dim = 3, 128
	base.Batch, base.Epochs, base.Dataset = 50, 2, "queue"
	base.Servers, base.Workers, base.Lanes = 1, 2, 1
	base.Compress = compress.Choice{Code: compress.Top, Share: .5}
	want := run(t, base, "shm")
	if want.Compress == nil || want.Compress.LateRows == 0 {
		t.Fatalf("nothing was sent late: %+v", want.Compress)
	}
	j := base
	j.MaxBytes, j.LookAhead = want.ServerUse[0].TableBytes/5, train.LookAhead // of which disks have 1.7 MiB
	j.Storage = &train.Storage{Dirs: []string{t.TempDir()}, Policy: policy.NameS3FIFO}
	if res := run(t, j, "shm"); res.Digest != want.Digest || res.Features != want.Features {
		t.Errorf("%d rows, digest %s; in memory %d, %s", res.Features, res.Digest, want.Features, want.Digest)
	}
}
