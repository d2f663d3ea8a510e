package verbstest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/rdma/feature"
	"psrt/sched/dataset"
	"psrt/sched/dataset/gen"
	"psrt/sched/job"
	"psrt/sched/train"
	"psrt/sched/train/model"
	"psrt/tiers/table"
)

// patience bounds one job, which takes seconds, on a machine ten times slower
// than a laptop.
const patience = 10 * time.Minute

func needsDevice(t *testing.T) {
	t.Helper()
	feature.SkipUnless(t, feature.NewProber("").Check(feature.RDMADevice))
}

// sample is a job of 2 servers with 2 lanes each and 2 workers.
func sample(t *testing.T, kind string, rows int64, epochs int) *train.Job {
	t.Helper()
	data := filepath.Join(t.TempDir(), "sample.libffm")
	if _, err := gen.Run(t.Context(), gen.Config{Kind: "zipf", Rows: rows, Fields: 6, Vocab: 4000, Seed: 1, Out: data}); err != nil {
		t.Fatal(err)
	}
	src, err := dataset.Open(t.Context(), []string{data}, dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	adam := table.Optimizer{Kind: table.Adam, LR: 0.01}.WithDefaults()
	return &train.Job{
		Data: []string{data}, Reading: src.Options(), Dataset: "memory", Shuffle: true,
		Model: model.Spec{Kind: kind, Dim: 8, Fields: src.Describe().Fields, Hidden: []int{16}, CrossLayers: 1,
			Task: model.CTR, Seed: 5, MeanLabel: src.Describe().MeanLabel},
		Optimizer: adam, DenseOptimizer: adam,
		Batch: 500, Epochs: epochs, Seed: 5, Sync: train.BSP,
		Servers: 2, Lanes: 2, Workers: 2, Threads: 1, Scratch: t.TempDir(),
	}
}

func run(t *testing.T, j *train.Job, transport string, events func(train.Event)) *train.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	k := *j
	res, err := job.RunInProcess(ctx, &k, transport, events)
	if err != nil {
		t.Fatalf("over %s: %v", transport, err)
	}
	return res
}

// TestSameDigest: the same seed gives the same model over verbs, shm and tcp.
func TestSameDigest(t *testing.T) {
	needsDevice(t)
	for _, kind := range []string{model.FM, model.DeepFM} {
		j := sample(t, kind, 3000, 1)
		over := run(t, j, "verbs", nil)
		if len(over.Transfers) == 0 || !strings.Contains(over.Transfers[0], "verbs") {
			t.Errorf("%s: the job says that it went by %v", kind, over.Transfers)
		}
		for _, other := range []string{"shm", "tcp"} {
			if d := run(t, j, other, nil).Digest; d != over.Digest {
				t.Errorf("%s: digest %s over verbs, %s over %s", kind, over.Digest, d, other)
			}
		}
		sums := *j
		sums.Dense = train.DenseAllReduce
		if d := run(t, &sums, "verbs", nil).Digest; d != over.Digest {
			t.Errorf("%s: digest %s with --dense allreduce, %s with --dense ps", kind, d, over.Digest)
		}
	}
}

// TestAuto: with a device that reaches the peer, auto is verbs.
func TestAuto(t *testing.T) {
	needsDevice(t)
	res := run(t, sample(t, model.LR, 1000, 1), "auto", nil)
	if !strings.Contains(res.Transfers[0], "verbs: an RDMA device reaches the peer (") {
		t.Errorf("auto chose %s", res.Transfers[0])
	}
}

// TestDeviceGoesDown takes one of the devices away in the middle of a job. The
// job goes on over the others, and no push is lost or applied twice: the
// digest is that of an undisturbed run.
func TestDeviceGoesDown(t *testing.T) {
	needsDevice(t)
	if os.Getenv("PSRT_LAB") != "rxe" {
		t.Log("not run: it takes a network interface down, only in the lab")
		return
	}
	shell(t, "ip link add w0 type veth peer name w1 && ip addr add 10.78.0.1/32 dev w0 && ip link set w0 mtu 4200 up && ip link set w1 mtu 4200 up && rdma link add rxe9 type rxe netdev w0")
	defer shell(t, "rdma link delete rxe9; ip link delete w0")
	gid := func() string { return shell(t, "cat /sys/class/infiniband/rxe9/ports/1/gids/* 2>/dev/null || true") }
	for deadline := time.Now().Add(time.Minute); !strings.Contains(gid(), "ffff:0a4e:0001"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("rxe9 has no GID of its interface's address: %s", gid())
		}
	}
	j := sample(t, model.FM, 20000, 2)
	want := run(t, j, "tcp", nil)
	packets := func() string { return shell(t, "cat /sys/class/infiniband/rxe9/ports/1/hw_counters/sent_pkts") }
	before := packets()
	var once sync.Once
	got := run(t, j, "verbs", func(e train.Event) {
		if e.Progress != nil && e.Progress.Examples > 0 {
			once.Do(func() {
				if packets() == before {
					t.Error("the device that is to go down carried nothing")
				}
				shell(t, "ip link set w0 down")
			})
		}
	})
	if got.Digest != want.Digest {
		t.Errorf("digest %s after a device went down, %s undisturbed", got.Digest, want.Digest)
	}
}

func shell(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}
