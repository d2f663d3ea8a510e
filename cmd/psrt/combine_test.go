package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/csrc/seedtest"
)

// Ranks of two hosts, started one by one: each host has one connection to each lane, and
// the model is that of the same workers on their own; so it is where a host's workers are
// no node of the tree, and three hosts are as good as four.
func TestCombinedOnHosts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	job := []string{"--data", write(t, dir, "train.libffm", rows(2000, 1)), "--test", write(t, dir, "test.libffm", rows(500, 2)),
		"--servers", "1", "--lanes", "2", "--workers", "4", "--sync", "bsp", "--model", "deepfm", "--hidden", "16,8", "--json"}
	own := psrt(t, append([]string{"train"}, job...)...)
	want := resultOf(t, own.stdout)
	for _, c := range []struct {
		hosts string // of the workers
		mode  string
		want  [][]int
		dense string
	}{
		{"aabb", "host", [][]int{{0, 1}, {2, 3}}, "ps"}, {"abbb", "auto", [][]int{{0}, {1}, {2, 3}}, "ps"},
		{"aabb", "host", [][]int{{0, 1}, {2, 3}}, "allreduce"}, {"abbb", "auto", [][]int{{0}, {1}, {2, 3}}, "allreduce"},
	} {
		var ranks [][]string
		for r := range 5 {
			host := "s"
			if r > 0 {
				host = c.hosts[r-1 : r]
			}
			ranks = append(ranks, append(job[:len(job):len(job)], "--combine", c.mode, "--dense", c.dense, "--host-label", host))
			if r != 1 { // worker 0 has the result
				ranks[r] = append(ranks[r], "--json=false")
			}
		}
		out := together(t, dir, ranks...)
		got := resultOf(t, out[1].stdout)
		if got.Digest != want.Digest || *got.AUC != *want.AUC || want.Combined != nil {
			t.Errorf("%s, %s: digest %s, AUC %v; each for itself %s, %v", c.hosts, c.dense, got.Digest, *got.AUC, want.Digest, *want.AUC)
		}
		if s := got.Combined; s == nil || !reflect.DeepEqual(s.Hosts, c.want) || !reflect.DeepEqual(s.QueuePairs, []int{2 * len(c.want)}) {
			t.Errorf("%s, %s: combined %+v, want %v", c.hosts, c.dense, s, c.want)
		}
	}
}

// Where it is asked for, a worker of a host that pulls and pushes as one ends the job when it
// dies, whether it carries or is carried; the message names it.
func TestCombinedWorkersDie(t *testing.T) {
	t.Parallel()
	seed := seedtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 5))
	data := write(t, t.TempDir(), "train.libffm", rows(20000, 1))
	for _, c := range []struct {
		victim int
		dense  string
	}{{0, "ps"}, {1, "allreduce"}} {
		victim, dense := c.victim, c.dense
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		j := startJob(t, ctx, "train", "--data", data, "--batch", "96", "--epochs", "10000", "--sync", "bsp", "--servers", "2", "--workers", "3", "--threads", "1",
			"--combine", "host", "--on-worker-loss", "end", "--dense", dense, "--json", "--stall-after", "0")
		if !j.says(t, "epoch  1 ") {
			t.Fatalf("it has ended: %s", j.stderr.String())
		}
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		pid := j.ranks()[2+victim]
		if pid == 0 {
			t.Fatalf("worker %d does not run: %s", victim, j.stderr.String())
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-j.done
		if code, said := j.cmd.ProcessState.ExitCode(), j.stderr.String(); code != 1 || !strings.Contains(said, fmt.Sprintf("worker %d ", victim)) || !strings.Contains(said, "killed") {
			t.Errorf("worker %d was killed: exit %d, %s", victim, code, said)
		}
	}
}

// Ranks of two hosts, started one by one: a worker that dies, of those that carry and of
// those that are carried, is started again by hand, and only its host begins again.
func TestCombinedHostBeginsAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	common := []string{"train", "--data", write(t, dir, "train.libffm", rows(20000, 1)), "--batch", "96", "--epochs", "6", "--threads", "1", "--servers", "1", "--workers", "4",
		"--sync", "bsp", "--model", "fm", "--seed", "7", "--json"}
	want := resultOf(t, psrt(t, common...).stdout)
	args := append(slices.Clone(common), "--combine", "host", "--on-worker-loss", "restart", "--worker-timeout", "3s", "--stall-after", "0",
		"--world-size", "5", "--coordinator", freeAddr(t), "--token-file", write(t, dir, "token", strings.Repeat("secret", 8)))
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	start := func(rank int) *runningJob {
		return startJob(t, ctx, append(slices.Clone(args), "--rank", strconv.Itoa(rank), "--host-label", "saabb"[rank:rank+1])...)
	}
	var ranks []*runningJob
	for r := range 5 {
		ranks = append(ranks, start(r))
	}
	if !ranks[1].says(t, "epoch  1 ") {
		t.Fatalf("the first worker: %s", ranks[1].stderr.String())
	}
	for i, victim := range []int{4, 3} { // of the second host: who is carried, and who carries
		if err := ranks[victim].cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ranks[victim].done
		ranks[victim] = start(victim)
		ranks[victim].says(t, fmt.Sprintf("worker %d is another process", victim-1))
		if i == 0 { // its host's other one, which is killed next, has begun again by then
			ranks[3].says(t, "worker 2 begins again")
		}
	}
	got := ranks[1].result(t)
	for r, j := range ranks {
		if <-j.done; j.cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("rank %d: exit %d, %s", r, j.cmd.ProcessState.ExitCode(), j.stderr.String())
		}
	}
	if got.Digest != want.Digest || got.Examples != want.Examples || !reflect.DeepEqual(got.Combined.Hosts, [][]int{{0, 1}, {2, 3}}) {
		t.Errorf("digest %s, %d examples, combined %+v; undisturbed %s, %d", got.Digest, got.Examples, got.Combined, want.Digest, want.Examples)
	}
	began := map[int]int{}
	for _, k := range got.Takeovers {
		began[k.Worker]++
	}
	if !reflect.DeepEqual(began, map[int]int{2: 2, 3: 2}) {
		t.Errorf("takeovers by worker %v (%v), want two of each of the second host", began, got.Takeovers)
	}
}
