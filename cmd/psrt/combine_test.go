package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/csrc/seedtest"
)

// A worker of a host that pulls and pushes as one ends the job when it dies, whether it
// carries or is carried; the message names it.
func TestCombinedWorkersDie(t *testing.T) {
	seed := seedtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 5))
	data := write(t, t.TempDir(), "train.libffm", rows(20000, 1))
	for _, victim := range []int{0, 2} {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		j := startJob(t, ctx, "train", "--data", data, "--batch", "96", "--epochs", "10000", "--sync", "bsp", "--servers", "2", "--workers", "3", "--threads", "1",
			"--combine", "host", "--json", "--stall-after", "0")
		if !j.says(t, "epoch  1 ") {
			t.Fatalf("it has ended: %s", j.stderr.String())
		}
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		if err := syscall.Kill(j.ranks()[2+victim], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-j.done
		if code, said := j.cmd.ProcessState.ExitCode(), j.stderr.String(); code != 1 || !strings.Contains(said, fmt.Sprintf("worker %d ", victim)) || !strings.Contains(said, "killed") {
			t.Errorf("worker %d was killed: exit %d, %s", victim, code, said)
		}
	}
}
