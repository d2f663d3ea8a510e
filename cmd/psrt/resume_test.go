package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/train"
)

// TestKilledAndResumed: a job whose processes are all killed at any moment, and
// that goes on each time from its newest checkpoint with another number of
// servers, ends with the model of one that nobody killed.
func TestKilledAndResumed(t *testing.T) {
	rng := seedtest.Rand(t)
	dir := t.TempDir()
	data, test := write(t, dir, "train.libffm", rows(200000, 1)), write(t, dir, "test.libffm", rows(1000, 2))
	args := []string{"train", "--data", data, "--test", test, "--model", "fm", "--dim", "8", "--batch", "200", "--epochs", "2", "--sync", "bsp", "--workers", "2", "--json"}
	result := func(out string) (res train.Result) {
		if err := json.Unmarshal([]byte(out), &res); err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		return res
	}
	o := psrt(t, args...)
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	want := result(o.stdout)
	args = append(args, "--checkpoint", filepath.Join(dir, "history"), "--checkpoint-every", "10steps", "--resume")
	kills := 6
	if testing.Short() {
		kills = 3
	}
	killed := 0
	for range 200 {
		servers := string(rune('1' + rng.IntN(3)))
		cmd := command(t.Context(), append(args, "--servers", servers)...)
		cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		if killed < kills {
			go func() {
				select {
				case <-time.After(time.Duration(100+rng.IntN(900)) * time.Millisecond):
					_ = cmd.Process.Kill() // what it started ends with it
				case <-ended:
				}
			}()
		}
		err := cmd.Wait()
		close(ended)
		if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			killed++
			continue
		}
		if err != nil {
			if strings.Contains(errs.String(), "another process") || strings.Contains(errs.String(), "locked") {
				continue // the killed job's ranks are still ending
			}
			t.Fatalf("%v: %s", err, errs.String())
		}
		res := result(out.String())
		if res.Digest != want.Digest || *res.AUC != *want.AUC || res.Examples != want.Examples {
			t.Errorf("after %d kills: digest %s, AUC %v, %d examples; without %s, %v, %d", killed, res.Digest, *res.AUC, res.Examples, want.Digest, *want.AUC, want.Examples)
		}
		if killed == 0 {
			t.Error("nothing was killed: the test proved nothing")
		}
		t.Logf("%d kills; the last part: %+v", killed, *res.Checkpoints)
		return
	}
	t.Fatal("the job never ended")
}
