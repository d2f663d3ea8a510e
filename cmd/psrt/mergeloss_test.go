package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/sched/train"
	"psrt/tiers/ckpt"
)

// Workers that merge steps are killed, or stopped, at fixed moments of passes of 17 steps, whose last sends what
// was kept, and others go on for them. The
// learning rate is so small that a prediction is one half whatever was learnt, and a power of
// two, as the batch is: so every gradient is a multiple of one number, which float32 adds
// without an error in any order. So an undisturbed job has the digest of bsp in asp and ssp, too,
// and one with deaths has it if each row's gradient counts once.
func TestWorkersDieThatMerge(t *testing.T) {
	t.Parallel()
	data := write(t, t.TempDir(), "train.libffm", evenRows(8192))
	args := []string{"train", "--data", data, "--model", "lr", "--optimizer", "sgd", "--lr", "8.673617379884035e-19", "--batch", "512", "--epochs", "60",
		"--servers", "2", "--workers", "3", "--threads", "1", "--transport", "tcp", "--worker-timeout", "5s", "--seed", "7", "--json", "--stall-after", "0"}
	forms := []string{"--sync asp --merge-pushes 3", "--sync ssp --staleness 6 --merge-pushes 4 --servers 3 --replicas 2 --groups 6 --allow-same-host", "--sync asp --merge-pushes 3 --checkpoint DIR --checkpoint-every 5steps",
		"--sync asp --merge-pushes 3 --dense allreduce", "--sync ssp --staleness 9 --merge-pushes 8 --dense allreduce"}
	want := resultOf(t, psrt(t, slices.Concat(args, []string{"--sync", "bsp"})...).stdout)
	for form, flags := range forms {
		if testing.Short() && form%3 != 0 { // asp, and asp with all-reduce
			continue
		}
		taken := 0
		for run, wait := range []int{0, 130, 270, 410} {
			if (testing.Short() || form > 0) && run > 1 {
				break
			}
			loss := []string{"restart", "continue"}[(run+form)%2]
			t.Run(fmt.Sprintf("%s, %s, %d ms", flags, loss, wait), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
				defer cancel()
				j := startJob(t, ctx, slices.Concat(args, strings.Fields(strings.ReplaceAll(flags, "DIR", filepath.Join(t.TempDir(), "history"))), []string{"--on-worker-loss", loss})...)
				if j.says(t, "epoch  1 ") {
					time.Sleep(time.Duration(wait) * time.Millisecond) // the moment is the fault's, not ours
					sig := syscall.SIGKILL
					if run == 2 {
						sig = syscall.SIGSTOP
					}
					if pid := j.ranks()[2+strings.Count(flags, "--servers 3")+run%3]; pid != 0 && !j.over() {
						syscall.Kill(pid, sig)
					}
				}
				got := j.result(t)
				taken += len(got.Takeovers)
				t.Log(got.Takeovers)
				sameSums(t, got, &want)
				if c := got.Checkpoints; c != nil && (c.Written < 3 || c.Failed > 1+len(got.Takeovers)) {
					t.Errorf("%d checkpoints, %d failed: more than those that waited for who died", c.Written, c.Failed)
				}
			})
		}
		if taken == 0 {
			t.Errorf("%s: nobody's number was taken over: the test proved nothing", flags)
		}
	}
}

// TestWorkersDieThatFindHowManyToMerge: where workers find out how many steps to merge, and try
// other numbers all the time, they are killed again and again; each row's gradient counts once.
func TestWorkersDieThatFindHowManyToMerge(t *testing.T) {
	t.Parallel()
	data := write(t, t.TempDir(), "train.libffm", evenRows(1<<16))
	args := []string{"train", "--data", data, "--model", "lr", "--optimizer", "sgd", "--lr", "8.673617379884035e-19", "--batch", "512", "--epochs", "25", "--merge-pushes", "auto",
		"--servers", "2", "--workers", "3", "--threads", "1", "--transport", "tcp", "--worker-timeout", "5s", "--seed", "7", "--json", "--stall-after", "0"}
	want := resultOf(t, psrt(t, slices.Concat(args, []string{"--sync", "asp"})...).stdout)
	taken, merged := 0, uint64(0)
	for run, flags := range []string{"--sync asp", "--sync ssp --staleness 6 --checkpoint DIR --checkpoint-every 50steps"} {
		t.Run(flags, func(t *testing.T) {
			got := dyingOften(t, run, 3, slices.Concat(args, strings.Fields(strings.ReplaceAll(flags, "DIR", filepath.Join(t.TempDir(), "history"))))...)
			taken += len(got.Takeovers)
			merged += got.Compress.Merge.Merged
			t.Log(got.Takeovers, *got.Compress.Merge)
			sameSums(t, got, &want)
		})
	}
	if taken == 0 || merged == 0 {
		t.Errorf("%d numbers were taken over, %d pushes merged: the test proved nothing", taken, merged)
	}
}

// dyingOften runs a job with two servers whose workers are killed eight times after the first pass.
func dyingOften(t *testing.T, run, workers int, args ...string) *train.Result {
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	j := startJob(t, ctx, append(args, "--on-worker-loss", "restart", "--worker-restarts", "9")...)
	rng := rand.New(rand.NewPCG(uint64(run), 2))
	if j.says(t, "epoch  1 ") {
		for range 8 {
			time.Sleep(time.Duration(50+rng.IntN(300)) * time.Millisecond) // the moments are the fault's, not ours
			if pid := j.ranks()[2+rng.IntN(workers)]; pid != 0 && !j.over() {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	return j.result(t)
}

// TestWorkersDieThatMergeWhatTheyAreDealt: where workers take ranges of files as fast as they
// train them, or files as they come, who goes on for one that died reads the steps again that it
// had merged; with topk it goes on behind them. Batches are whole at the ends of ranges and files,
// so that sums are exact.
func TestWorkersDieThatMergeWhatTheyAreDealt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	must(t, os.Mkdir(in, 0o755))
	text := signedRows(1 << 14)
	for i := range 100 {
		write(t, in, fmt.Sprintf("part-%03d", i), text)
	}
	data := write(t, dir, "train.libffm", text)
	args := []string{"train", "--model", "lr", "--optimizer", "sgd", "--lr", "8.673617379884035e-19", "--batch", "512", "--sync", "asp",
		"--servers", "2", "--workers", "2", "--threads", "1", "--transport", "tcp", "--worker-timeout", "5s", "--seed", "7", "--json", "--stall-after", "0"}
	whole, model := filepath.Join(dir, "whole"), filepath.Join(dir, "model")
	want := resultOf(t, psrt(t, slices.Concat(args, []string{"--data", data, "--epochs", "100", "--out", whole})...).stdout)
	dynamic, stream := []string{"--sharding", "dynamic", "--no-shuffle", "--data", data, "--epochs", "100"}, []string{"--stream", "--data", in, "--pass", "16384", "--stream-settle", "100ms", "--stream-idle", "2s"}
	for run, form := range [][]string{append(dynamic, "--merge-pushes", "3"), append(stream, "--merge-pushes", "3"), append(dynamic, "--compress", "topk:0.3"), append(stream, "--compress", "topk:0.3"), append(dynamic, "--merge-pushes", "auto"), append(stream, "--checkpoint", filepath.Join(dir, "history"), "--checkpoint-every", "30steps", "--stream-log", filepath.Join(dir, "log"), "--merge-pushes", "auto")} {
		t.Run(fmt.Sprint(form[0], form[len(form)-1]), func(t *testing.T) {
			must(t, os.RemoveAll(model))
			got := dyingOften(t, run, 2, slices.Concat(args, form, []string{"--out", model})...)
			t.Log(got.Takeovers, *got.Compress)
			if slices.Contains(form, "--compress") {
				sameRows(t, dir, got, &want)
				noneTwice(t, modelWeights(t, whole), modelWeights(t, model), 512, len(got.Takeovers)*2<<14)
			} else {
				sameSums(t, got, &want)
			}
			if len(got.Takeovers) == 0 {
				t.Error("nobody's number was taken over: the test proved nothing")
			}
		})
	}
}

// evenRows have as many clicks as others in any even number of them, so that a model begins at
// one half.
func evenRows(n int) string {
	rng := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d 0:%d:1 1:%d:1\n", i%2, rng.IntN(100), 1000+rng.IntN(200))
	}
	return b.String()
}

// sameSums: every example's gradients count once.
func sameSums(t *testing.T, got, want *train.Result) {
	if got.Examples != want.Examples || got.Digest != want.Digest {
		t.Errorf("%d examples, digest %s, undisturbed %d, %s", got.Examples, got.Digest, want.Examples, want.Digest)
	}
}

// TestWorkerDiesThatGoesOnMerging: a job is stopped between steps that are merged, goes on from
// its checkpoint, and its worker dies at once: what the checkpoint has of merged steps is sent
// by who goes on, once. That is of checkpoints in which no server has more than the steps before:
// what lanes have already of the next ones is left out there, and what is sent with them.
func TestWorkerDiesThatGoesOnMerging(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := write(t, dir, "train.libffm", evenRows(1<<16))
	args := []string{"train", "--data", data, "--model", "lr", "--optimizer", "sgd", "--lr", "8.673617379884035e-19", "--batch", "8192", "--epochs", "20", "--sync", "asp",
		"--servers", "2", "--workers", "1", "--threads", "1", "--transport", "tcp", "--seed", "7", "--json", "--stall-after", "0"}
	want := resultOf(t, psrt(t, args...).stdout)
	history := filepath.Join(dir, "history")
	args = append(args, "--merge-pushes", "8", "--checkpoint-every", "5steps", "--checkpoint")
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	for try := 0; ; try++ {
		first := startJob(t, ctx, append(slices.Clone(args), history, "--on-worker-loss", "end")...)
		first.says(t, "epoch  8 ")
		if pid := first.ranks()[2]; pid != 0 {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		<-first.done
		if !hasMore(t, history) {
			break
		}
		if try == 20 {
			t.Fatal("each checkpoint has something of later steps")
		}
		must(t, os.RemoveAll(history))
	}
	early := 0
	runs := 4
	if testing.Short() {
		runs = 2
	}
	for run := 0; run < runs || early == 0 && run < 12; run++ {
		at := filepath.Join(dir, fmt.Sprint(run))
		must(t, os.CopyFS(at, os.DirFS(history)))
		j := startJob(t, ctx, append(slices.Clone(args), at, "--resume", "--worker-timeout", "5s", "--on-worker-loss", "restart")...)
		if j.says(t, "goes on from checkpoint") {
			time.Sleep(time.Duration(10*(run%4)) * time.Millisecond) // the moment is the fault's, not ours
			if pid := j.ranks()[2]; pid != 0 && !j.over() {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		got := j.result(t)
		t.Log(got.Takeovers, got.Checkpoints)
		for _, k := range got.Takeovers {
			if k.Step == 0 {
				early++
			}
		}
		if got.Digest != want.Digest {
			t.Errorf("digest %s, undisturbed %s", got.Digest, want.Digest)
		}
	}
	if early == 0 {
		t.Error("nobody died before what was kept had been sent: the test proved nothing")
	}
}

// hasMore says whether the newest checkpoint has something of steps behind its own.
func hasMore(t *testing.T, history string) bool {
	m, err := ckpt.OpenTrainable(t.Context(), history)
	must(t, err)
	var at struct{ Ahead *struct{} }
	must(t, json.Unmarshal(m.Position, &at))
	return at.Ahead != nil
}
