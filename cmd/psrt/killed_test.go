package main

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killedUntilDone runs a job again and again, with args anew each time. All its
// processes are killed at any moment, six times (three in the tests' short form);
// then it may end. undisturbed is how long a run that nobody kills takes on this
// machine: the first kill comes within the first half of it, later ones within all of
// it. It returns what the last run printed, and how often it was killed.
func killedUntilDone(t *testing.T, rng *rand.Rand, undisturbed time.Duration, args func() []string) (stdout string, killed int) {
	t.Helper()
	kills := 6
	if testing.Short() {
		kills = 3
	}
	for range 200 {
		cmd := command(t.Context(), args()...)
		cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		within := undisturbed
		if killed == 0 {
			within /= 2
		}
		after := time.Duration(rng.Int64N(int64(within)))
		ended := make(chan struct{})
		if killed < kills {
			go func() {
				select {
				case <-time.After(after):
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
		if killed == 0 {
			t.Error("nothing was killed: the test proved nothing")
		}
		return out.String(), killed
	}
	t.Fatal("the job never ended")
	return "", 0
}
