package job

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/sched/dataset"
	"psrt/sched/train"
	"psrt/sched/train/model"
	"psrt/tiers/table"
)

// sampleFile writes n rows of libffm text with a signal in it.
func sampleFile(t *testing.T, name string, n int, seed uint64) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for range n {
		user, item := rng.IntN(200), 200+rng.IntN(300)
		score := math.Sin(float64(user)) + math.Cos(float64(item)) + math.Sin(float64(user*item))
		label := 0
		if score+rng.NormFloat64()*0.5 > 0 {
			label = 1
		}
		fmt.Fprintf(&b, "%d 0:%d:1 1:%d:1", label, user, item)
		genres := 1 + rng.IntN(3)
		for range genres {
			fmt.Fprintf(&b, " 2:%d:%g", 600+rng.IntN(18), 1/float64(genres))
		}
		b.WriteByte('\n')
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func sampleJob(t *testing.T, kind string) *train.Job {
	t.Helper()
	data := sampleFile(t, "train.libffm", 3000, 1)
	src, err := dataset.Open(t.Context(), []string{data}, dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	adam := table.Optimizer{Kind: table.Adam, LR: 0.01}.WithDefaults()
	return &train.Job{
		Data: []string{data}, Test: []string{sampleFile(t, "test.libffm", 700, 2)}, Reading: src.Options(),
		Dataset: "memory", Shuffle: true,
		Model: model.Spec{Kind: kind, Dim: 8, Fields: src.Describe().Fields, Hidden: []int{16, 8}, CrossLayers: 2,
			Dropout: 0.1, BatchNorm: true, Task: model.CTR, Seed: 5, MeanLabel: src.Describe().MeanLabel},
		Optimizer: adam, DenseOptimizer: adam,
		Batch: 500, Epochs: 2, Seed: 5, Sync: train.BSP,
		Servers: 1, Workers: 1, Threads: 1, Lanes: 1, Scratch: t.TempDir(),
	}
}

func run(t *testing.T, j train.Job, transport string) *train.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	res, err := RunInProcess(ctx, &j, transport, nil)
	if err != nil {
		t.Fatalf("%d servers of %d lanes, %d workers of %d threads, %s: %v", j.Servers, j.Lanes, j.Workers, j.Threads, transport, err)
	}
	return res
}

// The same seed gives the same model, bit for bit, whatever the number of
// servers, lanes, workers and threads, and whatever the transport.
func TestSameDigestWhateverTheLayout(t *testing.T) {
	layouts := []struct {
		servers, lanes, workers, threads int
		transport                        string
	}{
		{1, 1, 1, 1, "shm"}, {1, 1, 1, 1, "tcp"}, {2, 1, 1, 2, "shm"}, {3, 1, 2, 1, "tcp"},
		{1, 2, 4, 1, "shm"}, {2, 2, 2, 2, "shm"}, {2, 1, 3, 1, "shm"}, {1, 1, 8, 1, "tcp"},
	}
	for _, kind := range []string{model.FM, model.DeepFM} {
		t.Run(kind, func(t *testing.T) {
			base := sampleJob(t, kind)
			want := ""
			for _, l := range some(layouts) {
				j := *base
				j.Servers, j.Lanes, j.Workers, j.Threads = l.servers, l.lanes, l.workers, l.threads
				res := run(t, j, l.transport)
				if want == "" {
					want = res.Digest
					t.Logf("%s: digest %s, test auc %.4f, %d features", kind, want, *res.AUC, res.Features)
				}
				if res.Digest != want {
					t.Errorf("%+v: digest %s, want %s", l, res.Digest, want)
				}
				if *res.AUC < 0.6 {
					t.Errorf("%+v: test AUC %.4f: nothing was learnt", l, *res.AUC)
				}
			}
			// And another seed gives another model: the digest is no constant.
			j := *base
			j.Seed, j.Model.Seed = 6, 6
			if run(t, j, "shm").Digest == want {
				t.Errorf("seed 6 gives the digest of seed 5")
			}
		})
	}
}

// The same with a lifecycle: counts, gates and rules of parts come out the same,
// whoever saw which examples, and not as without one.
func TestSameDigestWithALifecycle(t *testing.T) {
	base := sampleJob(t, model.FM)
	plain := run(t, *base, "shm").Digest
	for _, change := range []func(l *table.Lifecycle){
		func(l *table.Lifecycle) { l.EmbedxThreshold = 2 },
		func(l *table.Lifecycle) {
			l.Admit, l.CreateValueWhenPush, l.EmbedxThreshold = table.AdmitCount, false, 1
			l.Embed, l.Embedx = table.PartRule{Rule: table.PartAdaGrad}, table.PartRule{Rule: table.PartSharedAdam}
		},
		func(l *table.Lifecycle) {
			l.Admit, l.AdmitProbability, l.ShowScale = table.AdmitProbability, 0.5, false
		},
	} {
		l, want := table.DefaultLifecycle(), ""
		change(&l)
		layouts := [][3]int{{1, 1, 1}, {3, 2, 2}, {2, 4, 1}}
		if testing.Short() {
			layouts = layouts[:2]
		}
		for _, layout := range layouts {
			j := *base
			j.Lifecycle = &l
			j.Servers, j.Workers, j.Threads = layout[0], layout[1], layout[2]
			res := run(t, j, []string{"shm", "tcp"}[layout[0]%2])
			if want == "" {
				want = res.Digest
			}
			if res.Digest != want || want == plain || *res.AUC < 0.55 {
				t.Errorf("%+v: digest %s, want %s, without a lifecycle %s; test AUC %.4f", layout, res.Digest, want, plain, *res.AUC)
			}
		}
	}
}

// Every consistency mode learns; ssp with staleness 0 is bsp to the bit.
func TestConsistencyModes(t *testing.T) {
	base := sampleJob(t, model.FM)
	base.Servers, base.Workers = 2, 2
	bsp := run(t, *base, "shm")
	for _, m := range []struct {
		sync      string
		staleness int
	}{{train.SSP, 0}, {train.SSP, 3}, {train.ASP, 0}} {
		j := *base
		j.Sync, j.Staleness = m.sync, m.staleness
		res := run(t, j, "shm")
		t.Logf("%s %d: auc %.4f (bsp %.4f)", m.sync, m.staleness, *res.AUC, *bsp.AUC)
		if m.sync == train.SSP && m.staleness == 0 && res.Digest != bsp.Digest {
			t.Errorf("ssp with staleness 0: digest %s, bsp %s", res.Digest, bsp.Digest)
		}
		if *res.AUC < *bsp.AUC-0.05 {
			t.Errorf("%s %d: AUC %.4f, bsp %.4f", m.sync, m.staleness, *res.AUC, *bsp.AUC)
		}
		if res.Examples != 6000 {
			t.Errorf("%s: %d examples trained, want every row once an epoch: 6000", m.sync, res.Examples)
		}
	}
}

// The best epoch by validation is what remains, and training ends early.
func TestEarlyStopKeepsTheBest(t *testing.T) {
	j := sampleJob(t, model.FM)
	j.Optimizer.LR, j.DenseOptimizer.LR = 0.1, 0.1 // overfits within a few epochs
	j.Valid = []string{sampleFile(t, "valid.libffm", 700, 3)}
	j.Epochs, j.Patience, j.Out = 30, 2, filepath.Join(t.TempDir(), "model")
	res := run(t, *j, "shm")
	if len(res.Epochs) == 30 {
		t.Fatalf("no early stop in 30 epochs")
	}
	best := 0
	for i, e := range res.Epochs {
		if *e.Valid.AUC > *res.Epochs[best].Valid.AUC {
			best = i
		}
	}
	if res.BestEpoch != best+1 || len(res.Epochs) != best+1+j.Patience {
		t.Errorf("best epoch %d of %d, want %d of %d", res.BestEpoch, len(res.Epochs), best+1, best+1+j.Patience)
	}
	// The digest is that of a run that ends at the best epoch.
	k := *j
	k.Epochs, k.Out = best+1, ""
	if again := run(t, k, "shm"); again.Digest != res.Digest {
		t.Errorf("the kept model's digest is %s, a run that ends there gives %s", res.Digest, again.Digest)
	}
}
