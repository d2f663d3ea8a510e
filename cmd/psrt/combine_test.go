package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
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

// A worker of a host that pulls and pushes as one ends the job when it dies, whether it
// carries or is carried; the message names it.
func TestCombinedWorkersDie(t *testing.T) {
	seed := seedtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 5))
	data := write(t, t.TempDir(), "train.libffm", rows(20000, 1))
	for _, c := range []struct {
		victim int
		dense  string
	}{{0, "ps"}, {2, "ps"}, {0, "allreduce"}, {1, "allreduce"}} {
		victim, dense := c.victim, c.dense
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		j := startJob(t, ctx, "train", "--data", data, "--batch", "96", "--epochs", "10000", "--sync", "bsp", "--servers", "2", "--workers", "3", "--threads", "1",
			"--combine", "host", "--dense", dense, "--json", "--stall-after", "0")
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
