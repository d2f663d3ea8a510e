package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leftIn are the folders that ranks have left in their TMPDIR.
func leftIn(scratch string) []string {
	all, err := filepath.Glob(filepath.Join(scratch, "psrt-*"))
	if err != nil {
		return []string{err.Error()}
	}
	return all
}

// A job whose ranks keep its coordinator together ends by Ctrl-C: at all of them at once,
// so that nobody is left to answer whoever ends a little later, and at one of them. It
// leaves no folder. A lease, for whose end ranks waited once, has 10 s.
func TestKeepersInterrupted(t *testing.T) {
	const within = 8 * time.Second
	for name, who := range map[string][]int{"all": {0, 1, 2, 3, 4}, "rank 0": {0}, "a worker": {4}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			dir, scratch := t.TempDir(), t.TempDir()
			addr, token := freeAddr(t), write(t, dir, "token", strings.Repeat("secret", 8))
			job := endless(t)[1:]
			var ranks []*exec.Cmd
			var said []*watched
			for r := range 5 {
				c := command(ctx, append(slices.Clone(job), "--servers", "3", "--workers", "2", "--replicas", "2", "--allow-same-host",
					"--rank", fmt.Sprint(r), "--world-size", "5", "--coordinator", addr, "--token-file", token)...)
				c.Env = append(c.Env, "TMPDIR="+scratch)
				w := &watched{want: "epoch  1", seen: make(chan struct{})}
				if c.Stderr = w; r == 0 {
					w.want = "there is a way to it"
				}
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				ranks, said = append(ranks, c), append(said, w)
			}
			for _, r := range []int{0, 3} {
				select {
				case <-said[r].seen:
				case <-ctx.Done():
					t.Fatalf("rank %d: %s", r, said[r].text())
				}
			}
			if n := len(leftIn(scratch)); n < 5 {
				t.Errorf("%d ranks keep the coordinator", n)
			}
			began := time.Now()
			for _, r := range who {
				if err := ranks[r].Process.Signal(os.Interrupt); err != nil {
					t.Error(err)
				}
			}
			var ends []time.Duration
			late := time.AfterFunc(within, func() { // whoever has not ended shows its goroutines
				for _, c := range ranks {
					_ = c.Process.Signal(syscall.SIGQUIT)
				}
			})
			defer late.Stop()
			for r, c := range ranks {
				_ = c.Wait() // its exit code is below
				ends = append(ends, time.Since(began).Round(time.Millisecond))
				by := "ended by interrupt"
				if !slices.Contains(who, r) {
					by = "the job was ended: " + map[int]string{0: "server 0", 4: "worker 1"}[who[0]] + ": " + by
				}
				if c.ProcessState.ExitCode() != 1 || len(who) == 1 && !strings.Contains(said[r].text(), by) {
					t.Errorf("rank %d: %v: %s", r, c.ProcessState, said[r].text())
				}
			}
			if took := time.Since(began); took > within {
				t.Errorf("the last rank ended after %v; waited for in turn, they had after %v", took, ends)
				for r, w := range said {
					t.Logf("rank %d: %s", r, w.text())
				}
			}
			if left := leftIn(scratch); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}
