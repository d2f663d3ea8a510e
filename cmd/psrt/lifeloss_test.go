package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/train"
)

// Worker 0 has the days of the features end, rows go and models for serving be made. It is
// killed at random moments, and who goes on for it has the same happen at the same steps:
// the model is the undisturbed one, where gradients that it kept back are not lost with it, nor
// asp makes another of it.
func TestWorkerOfTheDaysDies(t *testing.T) {
	t.Parallel()
	seed := seedtest.Seed(t)
	dir := t.TempDir()
	data := write(t, dir, "train.libffm", rows(12000, 1))
	for i, c := range []struct{ name, day, loss, flags string }{
		{"days within passes", "700", "continue", ""}, {"days of passes", "pass", "restart", ""}, {"started again", "700", "restart", ""},
		{"topk", "700", "restart", "--compress topk:0.2"}, {"topk, days of passes", "pass", "continue", "--compress topk:0.2"}, {"merged steps", "700", "restart", "--sync asp --merge-pushes 3"},
	} {
		if testing.Short() && i%3 != 0 { // continue, and restart with topk
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			life := write(t, t.TempDir(), "life.yaml", "embedx_threshold: 0.5\ndelete_threshold: 0.35\nshow_click_decay_rate: 0.8\nday: "+c.day+"\n")
			args := []string{"train", "--data", data, "--model", "fm", "--batch", "96", "--epochs", "6", "--servers", "2", "--workers", "3",
				"--threads", "1", "--sync", "bsp", "--seed", "7", "--json", "--stall-after", "0", "--accessor", life}
			args = append(slices.Concat(args, strings.Fields(c.flags)), "--serving")
			o := psrt(t, append(slices.Clone(args), filepath.Join(dir, fmt.Sprint("whole-", i)))...)
			var want train.Result
			if err := json.Unmarshal([]byte(o.stdout), &want); err != nil || want.Life == nil || want.Life.Days < 5 || c.day != "pass" && want.Life.Deleted == 0 {
				t.Fatalf("%v, %s: %s", err, o.stdout, o.stderr)
			}
			ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
			defer cancel()
			most := 2
			if c.loss == "continue" { // its rank is not started again
				most = 1
			}
			var got *train.Result
			var j *runningJob
			deaths := 0
			for try := 0; deaths == 0; try++ { // one that is over before the moment comes shows nothing
				if try == 5 {
					t.Fatal("five jobs have ended before a worker was killed: give them more rows")
				}
				j = startJob(t, ctx, append(slices.Clone(args), filepath.Join(dir, fmt.Sprint("served-", i, "-", try)), "--on-worker-loss", c.loss, "--worker-timeout", "30s")...)
				j.says(t, "epoch  1 ")
				for killed := 0; deaths < most && !j.over(); {
					time.Sleep(time.Duration(rng.IntN(400)>>try) * time.Millisecond) // the moment is the fault's, not ours
					if pid := j.ranks()[2]; pid != 0 && pid != killed && syscall.Kill(pid, syscall.SIGKILL) == nil {
						deaths, killed = deaths+1, pid
					}
				}
				got = j.result(t)
			}
			if c.flags == "" && got.Digest != want.Digest || got.Examples != want.Examples || got.Life == nil || got.Life.Days != want.Life.Days || got.Life.Events != want.Life.Events || c.flags == "" && got.Life.Deleted != want.Life.Deleted {
				t.Errorf("%d deaths, %v: digest %s, life %+v; undisturbed %s, %+v: %s", deaths, got.Takeovers, got.Digest, got.Life, want.Digest, want.Life, j.stderr.String())
			}
			if s := got.Life.Serving; s == nil || s.Failed > 0 || s.Bases+s.Deltas != want.Life.Serving.Bases+want.Life.Serving.Deltas {
				t.Errorf("%d deaths: models for serving %+v, undisturbed %+v", deaths, s, want.Life.Serving)
			}
			t.Logf("%d deaths, %v", deaths, got.Takeovers)
		})
	}
}
