package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/sched/train"
)

// lossForm is a form of training and what follows from a worker's death in it.
type lossForm struct {
	form  string // as docs/training.md has it
	flags string // that make it, on top of --sync bsp; DIR is a folder of its own
	// says is of the refusal at the start to go on when a worker dies; "": the job goes on.
	says string
	// after judges a job that has gone on; nil: it has the undisturbed one's digest.
	after func(t *testing.T, dir string, got, want *train.Result)
	// by is the test that kills workers in this form; nil: TestDeathsInForms.
	by func(*testing.T)
	// full forms add no mechanism of recovery to the others: the short form leaves them out.
	full bool
}

func lossForms() []lossForm {
	return []lossForm{
		{form: "workers and servers alone; `--replicas`; `--checkpoint`; ssp, asp", by: TestWorkersDie},
		{form: "`--dense allreduce`", by: TestWorkersDieInAllReduce},
		{form: "`--dense mixed`", by: TestWorkersDieInMixed},
		{form: "`--global-shuffle`", by: TestWorkersDieInGlobalShuffle},
		{form: "`--accessor`, `--serving`", by: TestWorkerOfTheDaysDies},
		{form: "`--stream`", by: TestStreamWorkersDie},
		{form: "`--heter` in bsp, workers and dense ranks", by: TestHeterRanksDie},
		{form: "`--heter` in ssp and asp, workers and dense ranks", by: TestHeterRanksDie},
		{form: "`--sharding dynamic`", flags: "--sharding dynamic --no-shuffle --sync asp", after: sameRows},
		{form: "`--compress fp16`, `int8`, `auto`", flags: "--compress int8 --transport tcp", full: true},
		{form: "`--batch-norm`, `--dropout`, `--clip-norm`", flags: "--model deepfm --hidden 16 --batch-norm --dropout 0.1 --clip-norm 1", full: true},
		{form: "`--ssd`, `--mem-budget`", flags: "--ssd DIR --mem-budget 64MiB"},
		{form: "`--hot-rows`", flags: "--sync ssp --staleness 2 --hot-rows 100 --hot-staleness 2", after: sameExamples, full: true},
		{form: "`--audit`", flags: "--audit DIR/record", after: sameAndAudited, full: true},
		{form: "`--merge-pushes N`", by: TestWorkersDieThatMerge},
		{form: "`--merge-pushes auto`", by: TestWorkersDieThatFindHowManyToMerge},
		{form: "`--merge-pushes` with `--stream` or `--sharding dynamic`", by: TestWorkersDieThatMergeWhatTheyAreDealt},
		{form: "`--compress topk`", by: TestWorkersDieThatKeep},
		{form: "`--compress topk` with `--dense allreduce`, `--ssd` or `--hbm-budget`", by: TestWorkersDieThatKeep},
		{form: "`--compress topk` with `--stream` or `--sharding dynamic`", by: TestWorkersDieThatMergeWhatTheyAreDealt},
		{form: "`--merge-pushes` with `--dense allreduce`", by: TestWorkersDieThatMerge},
		{form: "`--compress topk` or `--merge-pushes` with `--accessor`", by: TestWorkerOfTheDaysDies},
		{form: "`--combine host`", by: TestCombinedWorkersAreReplaced},
		{form: "`--combine host` with `--ssd`, `--compress int8`", flags: "--combine host --ssd DIR --mem-budget 64MiB --compress int8 --transport tcp", full: true},
		{form: "`--table-sync` with one table in bsp", flags: "--sync asp --table-sync dense=bsp --model deepfm --hidden 16 --audit DIR/record", after: sameExamplesAndAudited},
		{form: "`--colocate`", flags: "--workers 1 --colocate", says: "takes its server's rows with it"},
	}
}

func sameRows(t *testing.T, _ string, got, want *train.Result) {
	if got.Examples != want.Examples {
		t.Errorf("%d examples, undisturbed %d", got.Examples, want.Examples)
	}
}

func sameExamples(t *testing.T, _ string, got, want *train.Result) {
	if got.Examples != want.Examples || pushes(got) != pushes(want) {
		t.Errorf("%d examples and %d pushes, undisturbed %d and %d", got.Examples, pushes(got), want.Examples, pushes(want))
	}
}

func sameDigest(t *testing.T, _ string, got, want *train.Result) {
	exact := !slices.ContainsFunc(got.Takeovers, func(t train.Takeover) bool { return !t.Exact })
	if got.Examples != want.Examples || exact && got.Digest != want.Digest {
		t.Errorf("%d examples, digest %s, undisturbed %d, %s", got.Examples, got.Digest, want.Examples, want.Digest)
	}
}

func sameAndAudited(t *testing.T, dir string, got, want *train.Result) {
	sameDigest(t, dir, got, want)
	audited(t, dir)
}

func sameExamplesAndAudited(t *testing.T, dir string, got, want *train.Result) {
	sameExamples(t, dir, got, want)
	audited(t, dir)
}

func audited(t *testing.T, dir string) {
	t.Helper()
	if o := psrt(t, "audit", filepath.Join(dir, "record")); o.code != 0 {
		t.Errorf("the record: exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
}

// TestDeathsInForms: in each form of training a worker that dies is replaced, or the wish
// that it be is refused before anything begins; docs/training.md says which.
func TestDeathsInForms(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/training.md")
	if err != nil {
		t.Fatal(err)
	}
	data := write(t, t.TempDir(), "train.libffm", rows(20000, 1))
	for _, f := range lossForms() {
		line := fmt.Sprintf("| %s | is replaced |", f.form)
		if f.says != "" {
			line = fmt.Sprintf("| %s | ends the job |", f.form)
		}
		if !strings.Contains(string(doc), line) {
			t.Errorf("docs/training.md has no row %q", line)
		}
		if f.by != nil || f.full && testing.Short() {
			continue
		}
		t.Run(strings.NewReplacer("`", "", ",", "").Replace(f.form), func(t *testing.T) {
			job := func(dir string) []string {
				args := []string{"train", "--data", data, "--batch", "96", "--epochs", "5", "--workers", "2", "--threads", "1", "--sync", "bsp", "--seed", "7", "--json", "--stall-after", "0"}
				return append(args, strings.Fields(strings.ReplaceAll(f.flags, "DIR", dir))...)
			}
			if f.says != "" {
				for _, loss := range []string{"restart", "continue"} {
					o := psrt(t, append(job(t.TempDir()), "--on-worker-loss", loss)...)
					if o.code != 2 || !strings.Contains(o.stderr, f.says) {
						t.Errorf("%s: exit %d, want %q in %s", loss, o.code, f.says, o.stderr)
					}
				}
				return
			}
			want := resultOf(t, psrt(t, job(t.TempDir())...).stdout)
			ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
			defer cancel()
			for try := 0; ; try++ { // one that is over before the moment comes shows nothing
				if try == 5 {
					t.Fatal("five jobs have ended before a worker was killed: give them more rows")
				}
				dir := t.TempDir()
				j := startJob(t, ctx, append(job(dir), "--on-worker-loss", "restart", "--worker-timeout", "30s")...)
				killed := false
				if j.says(t, "epoch  1 ") {
					time.Sleep(time.Duration(100>>try) * time.Millisecond) // the moment is the fault's, not ours
					if pid := j.ranks()[2]; pid != 0 && !j.over() {
						killed = syscall.Kill(pid, syscall.SIGKILL) == nil
					}
				}
				got := j.result(t)
				if !killed || len(got.Takeovers) == 0 {
					continue
				}
				if f.after == nil {
					f.after = sameDigest
				}
				f.after(t, dir, got, &want)
				return
			}
		})
	}
}
