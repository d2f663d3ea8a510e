package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Workers that keep gradients back (topk) are killed, or stopped, at fixed moments of passes
// of 8 steps and those that send what they leave, and others go on for them. What a dead worker
// had kept is lost, which is said; nothing counts twice: as predictions stay at one half (see TestWorkersDieThatMerge), all
// gradients of a key have one sign and one size, and none is further from nothing than
// where each counts once. What is lost is of one
// worker's pass, for a pass ends with nothing kept.
func TestWorkersDieThatKeep(t *testing.T) {
	t.Parallel()
	const n, passes, workers = 8192, 60, 3
	data := write(t, t.TempDir(), "train.libffm", signedRows(n))
	args := []string{"train", "--data", data, "--model", "lr", "--optimizer", "sgd", "--lr", "8.673617379884035e-19", "--batch", "1024", "--epochs", strconv.Itoa(passes),
		"--servers", "2", "--workers", strconv.Itoa(workers), "--threads", "1", "--transport", "tcp", "--worker-timeout", "5s", "--seed", "7", "--json", "--stall-after", "0"}
	model := filepath.Join(t.TempDir(), "model")
	want := resultOf(t, psrt(t, slices.Concat(args, []string{"--sync", "bsp", "--out", model})...).stdout)
	all := modelWeights(t, model)
	forms := []string{"--sync asp --compress topk:0.3", "--sync bsp --compress topk:0.3 --servers 3 --replicas 2 --groups 6 --allow-same-host", "--sync ssp --staleness 3 --compress topk:0.5:9",
		"--sync bsp --compress topk:0.3 --checkpoint DIR --checkpoint-every 5steps", "--sync asp --compress topk:0.3 --checkpoint DIR --checkpoint-every 5steps",
		"--sync bsp --compress topk:0.1 --dense allreduce", "--sync asp --compress topk:0.1 --dense allreduce --ssd DIR --mem-budget 64MiB", "--sync asp --compress topk:0.1 --hbm-budget 8MiB --hbm-device host"}
	for form, flags := range forms {
		if testing.Short() && form%3 != 0 { // asp, bsp with checkpoints, all-reduce with disks
			continue
		}
		taken := 0
		for run, wait := range []int{0, 130, 270} {
			if run > 0 && (testing.Short() || form > 0 && run+form != 3) { // one that is stopped takes seconds
				break
			}
			loss := []string{"restart", "continue"}[(run+form)%2]
			t.Run(fmt.Sprintf("%s, %s, %d ms", flags, loss, wait), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
				defer cancel()
				dir := t.TempDir()
				model := filepath.Join(dir, "model")
				j := startJob(t, ctx, slices.Concat(args, strings.Fields(strings.ReplaceAll(flags, "DIR", filepath.Join(dir, "history"))), []string{"--on-worker-loss", loss, "--out", model})...)
				if j.says(t, "epoch  1 ") {
					time.Sleep(time.Duration(wait) * time.Millisecond) // the moment is the fault's, not ours
					sig := syscall.SIGKILL
					if run == 2 {
						sig = syscall.SIGSTOP
					}
					servers := 2 + strings.Count(flags, "--servers 3")
					if pid := j.ranks()[servers+run%workers]; pid != 0 && !j.over() {
						syscall.Kill(pid, sig)
					}
				}
				got := j.result(t)
				taken += len(got.Takeovers)
				for _, k := range got.Takeovers {
					if k.Step > 0 && !k.Dropped || k.Exact && k.Dropped && strings.Contains(flags, "bsp") {
						t.Errorf("%+v does not say that what was kept is lost", k)
					}
				}
				if got.Examples != want.Examples {
					t.Errorf("%d examples, want %d", got.Examples, want.Examples)
				}
				if c := got.Checkpoints; c != nil && (c.Written < 3 || c.Failed > 1+len(got.Takeovers)) {
					t.Errorf("%d checkpoints, %d failed: more than those that waited for who died", c.Written, c.Failed)
				}
				noneTwice(t, all, modelWeights(t, model), 1024, len(got.Takeovers)*2*n/workers*2)
			})
		}
		if taken == 0 {
			t.Errorf("%s: nobody's number was taken over: the test proved nothing", flags)
		}
	}
}

// noneTwice holds a model against that of a job in which each gradient counts once, in batches of
// so many: gradients of most keys may be lost, none may count twice.
func noneTwice(t *testing.T, all, some map[string]float64, batch float64, most int) {
	lost := 0.0
	for key, w := range all {
		g := some[key]
		if math.Signbit(g) != math.Signbit(w) && g != 0 || math.Abs(g) > math.Abs(w) {
			t.Fatalf("key %s has %g, %g where each gradient counts once: some count twice", key, g, w)
		}
		lost += math.Abs(w) - math.Abs(g)
	}
	each := 8.673617379884035e-19 / 2 / batch // of an example, to each of its keys
	t.Logf("gradients of %.0f keys are lost", lost/each)
	if lost/each > float64(most) {
		t.Errorf("gradients of %.0f keys are lost, at most %d were of the passes of those that died", lost/each, most)
	}
}

// modelWeights are the weights of a model that has one of each row.
func modelWeights(t *testing.T, model string) map[string]float64 {
	t.Helper()
	out := filepath.Join(t.TempDir(), "text")
	if o := psrt(t, "export", "--checkpoint", model, "--out", out, "--format", "text"); o.code != 0 {
		t.Fatal(o.stderr)
	}
	return keyWeights(t, filepath.Join(out, "embedding.tsv"))
}

// signedRows are as evenRows, and each key is one of clicks or of others.
func signedRows(n int) string {
	rng := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d 0:%d:1 1:%d:1\n", i%2, 2*rng.IntN(500)+i%2, 2000+2*rng.IntN(1000)+i%2)
	}
	return b.String()
}

// keyWeights are the weights of a table that has one of each row, in an export as text.
func keyWeights(t *testing.T, file string) map[string]float64 {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	out := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		if key, w, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && line[0] != '#' {
			out[key], err = strconv.ParseFloat(w, 64)
			must(t, err)
		}
	}
	return out
}
