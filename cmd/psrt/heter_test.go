package main

import (
	"context"
	"encoding/json"
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

	"psrt/csrc/seedtest"
	"psrt/sched/train"
)

// TestHeterEmptyShares: every second step has one example, so that most workers have none
// in it. Those ask no server for rows and are ahead of the others by that step; whoever
// has the layers of both must go on with the step that is behind. The model is the same.
func TestHeterEmptyShares(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all := filepath.Join(dir, "all.libffm")
	if o := psrt(t, "gen", "zipf", "--rows", "100", "--fields", "6", "--vocab", "300", "--seed", "3", "--out", all); o.code != 0 {
		t.Fatal(o.stderr)
	}
	text, err := os.ReadFile(all)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "train.libffm")
	if err := os.WriteFile(data, []byte(strings.Join(strings.SplitAfter(string(text), "\n")[:65], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args string) (res train.Result) {
		t.Helper()
		o := psrt(t, append([]string{"train", "--data", data, "--model", "deepfm", "--hidden", "16", "--dim", "4", "--batch", "64", "--workers", "4", "--threads", "1", "--epochs", "12", "--quiet", "--json"}, strings.Fields(args)...)...)
		if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || o.code != 0 {
			t.Fatalf("%s: exit %d: %v: %s", args, o.code, err, o.stderr)
		}
		return res
	}
	if whole, halves := run("--sync bsp"), run("--sync bsp --heter --dense-ranks 2"); whole.Digest != halves.Digest || whole.Digest == "" {
		t.Errorf("in bsp the digest is %s, with dense ranks %s", whole.Digest, halves.Digest)
	}
	if r := run("--sync ssp --staleness 1 --heter --dense-ranks 2"); r.Examples != 65*12 {
		t.Errorf("in ssp %d examples were trained, want %d", r.Examples, 65*12)
	}
}

// TestHeterRanksDie: dense ranks, or workers, are killed at random moments. Others take their
// places; every example counts once, as does every push, and in bsp the model is what it would
// have been.
func TestHeterRanksDie(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sync, undisturbed string
		same              func(t *testing.T, dir string, got, want *train.Result)
	}{
		{"bsp", "", sameDigest},
		{"ssp --staleness 2", "--heter --dense-ranks 2", sameExamples},
		{"asp", "--heter --dense-ranks 2", sameExamples},
	} {
		if testing.Short() && c.sync[:3] == "ssp" {
			continue // asp's way is the same
		}
		t.Run(c.sync[:3], func(t *testing.T) { heterRanksDie(t, c.sync, c.undisturbed, c.same) })
	}
}

func heterRanksDie(t *testing.T, sync, undisturbed string, same func(t *testing.T, dir string, got, want *train.Result)) {
	seed, runs := seedtest.Seed(t), 4
	if n, err := strconv.Atoi(os.Getenv("PSRT_FAULT_RUNS")); err == nil {
		runs = n
	}
	if testing.Short() {
		runs = 1
	}
	dir := t.TempDir()
	args := append([]string{"train", "--data", write(t, dir, "train.libffm", rows(20000, 1)), "--model", "deepfm", "--hidden", "128,32", "--batch", "96", "--epochs", "5",
		"--servers", "2", "--workers", "3", "--threads", "1", "--seed", "7", "--json", "--stall-after", "0", "--sync"}, strings.Fields(sync)...) // two lanes have dense values
	o := psrt(t, append(slices.Clone(args), strings.Fields(undisturbed)...)...)
	var want train.Result
	if err := json.Unmarshal([]byte(o.stdout), &want); err != nil {
		t.Fatalf("undisturbed: exit %d, %v; %s", o.code, err, o.stderr)
	}
	taken := 0
	for run := 0; run < runs || taken == 0 && run < runs+4; run++ { // a job that is over too early shows nothing
		rng := rand.New(rand.NewPCG(uint64(run), 5))
		if run == runs-1 {
			rng = rand.New(rand.NewPCG(seed, 5))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
		more := []string{"--heter", "--dense-ranks", "2", "--transport", []string{"shm", "tcp"}[run%2], "--worker-timeout", "5s"}
		j := startJob(t, ctx, append(slices.Clone(args), more...)...)
		if !j.says(t, "epoch  1 ") {
			t.Fatalf("it is over: %s", j.stderr.String())
		}
		deaths := ""
		kind := [][]int{{5, 6}, {5, 6}, {2, 4}}[rng.IntN(3)] // not a worker and its dense rank in one step
		for range 1 + rng.IntN(2) {
			time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
			victim := kind[rng.IntN(2)]
			if pid := j.ranks()[victim]; pid != 0 && !j.over() {
				syscall.Kill(pid, syscall.SIGKILL)
				deaths += fmt.Sprintf(" rank %d", victim)
			}
		}
		res := j.result(t)
		cancel()
		t.Logf("run %d:%s: %v", run, deaths, res.Takeovers)
		taken += len(res.Takeovers)
		same(t, dir, res, &want)
		if off := *res.AUC - *want.AUC; sync == train.BSP && off != 0 || math.Abs(off) > .02 {
			t.Errorf("run %d:%s: AUC %v, undisturbed %v", run, deaths, *res.AUC, *want.AUC)
		}
		if slices.ContainsFunc(res.Takeovers, func(t train.Takeover) bool { return !t.Exact }) {
			t.Errorf("run %d:%s: a takeover is not exact: %v", run, deaths, res.Takeovers)
		}
		for _, k := range res.Takeovers { // two dense ranks behind three workers
			if want := []string{"worker 0", "worker 1", "worker 2", "dense rank 0", "dense rank 1"}[k.Worker]; k.Rank != want {
				t.Errorf("run %d: member %d is called %q, want %q", run, k.Worker, k.Rank, want)
			}
		}
	}
	if taken == 0 {
		t.Error("nobody's number was taken over: the test proved nothing")
	}
}

// TestHeterServersDie: a server of a job with dense ranks and replicas is killed at a random
// moment, whichever it is. The job goes on, and in bsp gives the model of an undisturbed one
// without either.
func TestHeterServersDie(t *testing.T) {
	t.Parallel()
	seed, runs := seedtest.Seed(t), 3
	if testing.Short() {
		runs = 1
	}
	args := []string{"train", "--data", write(t, t.TempDir(), "train.libffm", rows(10000, 1)), "--model", "deepfm", "--hidden", "16", "--batch", "96", "--epochs", "10",
		"--servers", "3", "--workers", "2", "--threads", "1", "--seed", "7", "--sync", "bsp", "--json", "--stall-after", "0"}
	o := psrt(t, args...)
	var want train.Result
	if err := json.Unmarshal([]byte(o.stdout), &want); err != nil {
		t.Fatalf("undisturbed: exit %d, %v; %s", o.code, err, o.stderr)
	}
	for run := range runs {
		rng := rand.New(rand.NewPCG(seed, uint64(run)))
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
		j := startJob(t, ctx, append(slices.Clone(args), "--heter", "--dense-ranks", "2", "--transport", []string{"shm", "tcp"}[run%2],
			"--replicas", "2", "--groups", "6", "--allow-same-host")...)
		if !j.says(t, "epoch  1 ") {
			t.Fatalf("it is over: %s", j.stderr.String())
		}
		time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
		victim := rng.IntN(3)
		pid := j.ranks()[victim]
		if pid == 0 {
			t.Fatalf("server %d does not run: %s", victim, j.stderr.String())
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		res := j.result(t)
		cancel()
		if res.Digest != want.Digest || res.Examples != want.Examples || len(res.Takeovers) > 0 {
			t.Errorf("run %d, server %d: digest %s of %d examples, undisturbed %s of %d; taken over %v", run, victim, res.Digest, res.Examples, want.Digest, want.Examples, res.Takeovers)
		}
		if said := j.stderr.String(); !strings.Contains(said, fmt.Sprintf("server %d (pid %d) was killed (signal 9)", victim, pid)) {
			t.Errorf("run %d: it is not said that server %d was killed: %s", run, victim, said)
		}
	}
}
