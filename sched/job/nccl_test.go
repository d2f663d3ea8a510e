package job

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/csrc/nccl"
	"psrt/csrc/nccl/nccltest"
	"psrt/sched/densesplit"
	"psrt/sched/train"
	"psrt/sched/train/model"
)

func TestMain(m *testing.M) {
	if os.Getenv("PSRT_FAKE_CUDA_DEVICES") == "" { // before the fake is loaded; some tests say for their children
		os.Setenv("PSRT_FAKE_CUDA_DEVICES", "4")
	}
	os.Exit(m.Run())
}

// fakeCards are as many as the fake driver shows, with a NCCL.
func fakeCards(t *testing.T, defines ...string) {
	t.Helper()
	t.Setenv(cuda.Variable, cudatest.Library(t))
	t.Setenv(nccl.Variable, nccltest.Build(t, defines...))
}

// ncclCards are the fake driver's, or, with PSRT_GPU set, this machine's, and so many workers can have one.
func ncclCards(t *testing.T) (workers int) {
	if n := cudatest.Cards(t); n > 0 {
		return n
	}
	fakeCards(t)
	return 4
}

// NCCL adds what the servers would have added, bit for bit, whatever its own order; with
// workers that have no examples in a step, too.
func TestSameDigestByNCCL(t *testing.T) {
	most := ncclCards(t)
	base := sampleJob(t, model.DeepFM)
	base.Batch = 512
	want := run(t, *base, "shm")
	for _, l := range []struct {
		servers, lanes, workers int
		mixed                   *densesplit.Measured
	}{{1, 1, 1, nil}, {1, 2, 2, nil}, {2, 1, 3, nil}, {2, 2, 4, &densesplit.Measured{Servers: 1, Reduce: 1}}} {
		if l.workers > most || testing.Short() && l.workers%2 == 1 && l.servers == 1 {
			continue
		}
		j := *base
		j.Dense, j.Collective, j.Servers, j.Lanes, j.Workers = train.DenseAllReduce, train.CollectiveNCCL, l.servers, l.lanes, l.workers
		if l.mixed != nil {
			j.Dense, j.DenseMeasured = train.DenseMixed, l.mixed
		}
		res := run(t, j, "shm")
		if res.Digest != want.Digest || *res.AUC != *want.AUC {
			t.Errorf("%+v: digest %s, AUC %v; with --dense ps %s, %v", l, res.Digest, *res.AUC, want.Digest, *want.AUC)
		}
		if use := res.DenseSums.NCCL; use == nil || use.Why != "" || use.Version == "" || use.AnyOrder || res.DenseSums.Hosts != nil {
			t.Errorf("%+v: added by %+v", l, use)
		}
	}
}

// TestNCCLEndsInOrder: at a good end all communicators are finalized and destroyed, and none is aborted; what
// added is still said.
func TestNCCLEndsInOrder(t *testing.T) {
	fakeCards(t)
	trace := filepath.Join(t.TempDir(), "trace")
	t.Setenv("PSRT_FAKE_NCCL_TRACE", trace)
	j := sampleJob(t, model.DeepFM)
	j.Dense, j.Collective, j.Workers = train.DenseAllReduce, train.CollectiveNCCL, 3
	if use := run(t, *j, "shm").DenseSums; use.NCCL == nil || use.NCCL.Why != "" || use.NCCL.Version == "" || use.Hosts != nil {
		t.Errorf("added by %+v", use)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Sort(lines)
	if got, want := strings.Join(lines, ", "), "destroy 0, destroy 1, destroy 2, finalize 0, finalize 1, finalize 2"; got != want {
		t.Errorf("the job ends with %q, want %q", got, want)
	}
}

// Where no bit is promised NCCL's own order will do: every worker ends with the servers'
// values, which the run itself checks.
func TestNCCLWithStaleRows(t *testing.T) {
	most := ncclCards(t)
	j := sampleJob(t, model.DeepFM)
	j.Dense, j.Collective, j.Sync, j.Workers, j.Servers, j.Lanes = train.DenseAllReduce, train.CollectiveNCCL, train.ASP, min(most, 3), 2, 2
	if res := run(t, *j, "shm"); *res.AUC < 0.6 || res.DenseSums.NCCL == nil || !res.DenseSums.NCCL.AnyOrder {
		t.Errorf("AUC %.4f, added by %+v", *res.AUC, res.DenseSums.NCCL)
	}
}

// What keeps NCCL from a job, before it or in its middle, leaves the ring, which says why.
func TestRingForNCCL(t *testing.T) {
	base := sampleJob(t, model.DeepFM)
	base.Batch = 512
	want := run(t, *base, "shm")
	for name, c := range map[string]struct {
		workers int
		prepare func(t *testing.T)
		why     string
	}{
		"an old library":        {2, func(t *testing.T) { fakeCards(t, "-DWITHOUT_P2P") }, "has no ncclSend"},
		"no library":            {2, func(t *testing.T) { fakeCards(t); t.Setenv(nccl.Variable, "none.so") }, "none.so"},
		"more workers than":     {5, func(t *testing.T) { fakeCards(t) }, "rank 4: the last of its 4 cards is rank 3's, and NCCL refuses two ranks on one"},
		"an error in the midst": {3, func(t *testing.T) { fakeCards(t); t.Setenv("PSRT_FAKE_NCCL_FAIL", "1:9") }, "rank 1: it failed before: "},
	} {
		if testing.Short() && c.workers == 2 {
			continue // the others fall back likewise
		}
		t.Run(name, func(t *testing.T) {
			c.prepare(t)
			j := *base
			j.Dense, j.Collective, j.Workers, j.OnWorkerLoss = train.DenseAllReduce, train.CollectiveNCCL, c.workers, train.LossContinue
			res := run(t, j, "shm")
			if res.Digest != want.Digest {
				t.Errorf("digest %s, with --dense ps %s", res.Digest, want.Digest)
			}
			if use := res.DenseSums.NCCL; use == nil || !strings.Contains(use.Why, c.why) || use.Version != "" {
				t.Errorf("added by %+v, want the ring since %q", use, c.why)
			}
		})
	}
}

// copiesVariable is of the fake driver, which reads it once in a process.
const copiesVariable = "PSRT_FAKE_CUDA_COPIES"

// Cards whose driver fails in the midst, and refuses from then on what gives them back, too,
// leave the ring. In a process of its own: the fake does not recover.
func TestRingForFailedCards(t *testing.T) {
	if os.Getenv(copiesVariable) == "" {
		fakeCards(t)
		c := exec.Command(os.Args[0], "-test.run=^TestRingForFailedCards$", "-test.v")
		c.Env = append(os.Environ(), cuda.Variable+"="+cudatest.Build(t), copiesVariable+"=40")
		if text, err := c.CombinedOutput(); err != nil || !strings.Contains(string(text), "--- PASS") {
			t.Errorf("%v\n%s", err, text)
		}
		return
	}
	base := sampleJob(t, model.DeepFM)
	base.Batch = 512
	want := run(t, *base, "shm")
	j := *base
	j.Dense, j.Collective, j.Workers, j.OnWorkerLoss = train.DenseAllReduce, train.CollectiveNCCL, 3, train.LossContinue
	res := run(t, j, "shm")
	if res.Digest != want.Digest {
		t.Errorf("digest %s, with --dense ps %s", res.Digest, want.Digest)
	}
	if use := res.DenseSums.NCCL; use == nil || !strings.Contains(use.Why, "it failed before: ") || !strings.Contains(use.Why, "CUDA_ERROR_ILLEGAL_ADDRESS") {
		t.Errorf("added by %+v, want the ring since the driver failed", use)
	}
}

func TestCollectiveIsRefused(t *testing.T) {
	for _, c := range [][3]string{{train.DensePS, train.CollectiveNCCL, "--dense ps"}, {train.DenseAllReduce, "gloo", "gloo"}} {
		j := sampleJob(t, model.FM)
		j.Dense, j.Collective = c[0], c[1]
		if err := j.Validate(); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%v: %v", c, err)
		}
	}
}
