package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/sched/train"
)

// With compression a model of bsp is the same over one server and three, over tcp, shm
// and a chain of replicas, and as good as without.
func TestCompress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "train.libffm")
	if o := psrt(t, "gen", "zipf", "--rows", "20000", "--fields", "6", "--vocab", "300", "--seed", "3", "--out", data); o.code != 0 {
		t.Fatal(o.stderr)
	}
	run := func(args string) (res train.Result) {
		t.Helper()
		o := psrt(t, append([]string{"train", "--data", data, "--model", "deepfm", "--hidden", "16", "--dim", "8", "--batch", "1000", "--epochs", "2", "--sync", "bsp", "--workers", "2", "--threads", "1", "--quiet", "--json"}, strings.Fields(args)...)...)
		if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || o.code != 0 {
			t.Fatalf("%s: exit %d: %v: %s", args, o.code, err, o.stderr)
		}
		return res
	}
	plain := run("--transport tcp")
	for _, c := range []struct {
		code       string
		most       float64 // of the floats' bytes
		loss, rows float64
	}{{"fp16", .6, 5e-4, 0}, {"int8", .4, 5e-4, 0}, {"topk:0.5", .9, .02, 1}, {"topk:0.2:2", .9, .02, 1}} {
		t.Run(c.code, func(t *testing.T) {
			one := run("--transport tcp --compress " + c.code)
			if u := one.Compress; u == nil || u.Code != c.code || float64(u.PackedBytes) > c.most*float64(u.FloatBytes) || u.KeptRows != 0 || (u.LateRows > 0) != (c.rows > 0) {
				t.Errorf("%+v", u)
			}
			if got, want := *one.Epochs[1].Train.AUC, *plain.Epochs[1].Train.AUC; math.Abs(got-want) > c.loss {
				t.Errorf("AUC is %.5f, without compression %.5f", got, want)
			}
			for _, layout := range []string{"--transport shm --servers 3", "--servers 2 --replicas 2 --allow-same-host"} {
				if other := run(layout + " --compress " + c.code); other.Digest != one.Digest {
					t.Errorf("%s: another model than over one server", layout)
				}
			}
		})
	}
	if plain.Compress != nil {
		t.Errorf("without compression: %+v", plain.Compress)
	}
	if u := run("--transport tcp --compress auto").Compress; u == nil || !strings.HasPrefix(u.Code, "auto: ") {
		t.Errorf("auto: %+v", u)
	}
}

// TestTopGoesOn: what topk has not sent is in checkpoints. A job that goes on from one, in
// the middle of an epoch, ends with the model of a job that nobody stopped.
func TestTopGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := write(t, dir, "train.libffm", rows(2300, 5))
	job := []string{"train", "--data", data, "--model", "deepfm", "--hidden", "8", "--dim", "4", "--batch", "200", "--dataset", "queue", "--no-shuffle"}
	run := func(code int, args string, more ...string) outcome {
		t.Helper()
		o := psrt(t, slices.Concat(job, []string{"--compress", "topk:0.1", "--quiet", "--json"}, strings.Fields(args), more)...)
		if o.code != code {
			t.Fatalf("%s %v: exit %d: %s", args, more, o.code, o.stderr)
		}
		return o
	}
	for _, layout := range []string{"--sync bsp --workers 1", "--sync bsp --workers 2 --servers 2", "--sync bsp --workers 2 --dense allreduce", "--sync ssp --staleness 2 --workers 2"} {
		t.Run(layout, func(t *testing.T) {
			history := filepath.Join(t.TempDir(), "history")
			saving := layout + " --checkpoint-every 5steps --checkpoint"
			first := resultOf(t, run(0, saving, history).stdout)
			if first.Checkpoints.Written == 0 || first.Checkpoints.Failed > 0 {
				t.Fatalf("%+v", first.Checkpoints)
			}
			if o := psrt(t, "checkpoint", "verify", history); o.code != 0 {
				t.Fatal(o.stderr)
			}
			kept, err := filepath.Glob(filepath.Join(history, "*", "unsent-*.part"))
			if err != nil || len(kept) != first.Workers*first.Checkpoints.Written {
				t.Errorf("%d files of what was not sent in %d checkpoints of %d workers", len(kept), first.Checkpoints.Written, first.Workers)
			}
			if first.Workers == 1 { // what was merged has it, too
				if o := psrt(t, "checkpoint", "merge", history); o.code != 0 {
					t.Fatal(o.stderr)
				}
			}
			want := resultOf(t, run(0, layout+" --epochs 2").stdout)
			got := resultOf(t, run(0, saving, history, "--epochs", "2", "--resume").stdout)
			if got.Checkpoints.ResumedFrom == 0 {
				t.Errorf("%+v", got.Checkpoints)
			}
			if want.Sync == train.BSP && got.Digest != want.Digest {
				t.Errorf("digest %s, of a job that nobody stopped %s", got.Digest, want.Digest)
			}
			if layout == "--sync bsp --workers 2 --servers 2" { // sums have no dense values that are kept
				if o := run(2, saving, history, "--epochs", "3", "--resume", "--dense", "allreduce"); !strings.Contains(o.stderr, "give --dense ps") {
					t.Error(o.stderr)
				}
			}
			// A file that is gone or damaged is left out, or it says so.
			if kept, err = filepath.Glob(filepath.Join(history, "*", "unsent-0.part")); err != nil || len(kept) == 0 {
				t.Fatal(kept, err)
			}
			if err := os.Remove(kept[len(kept)-1]); err != nil {
				t.Fatal(err)
			}
			if want.Sync == train.BSP {
				if o := run(2, saving, history, "--epochs", "3", "--resume"); !strings.Contains(o.stderr, "give --compress fp16, int8 or none") {
					t.Error(o.stderr)
				}
			} else if o := psrt(t, slices.Concat(job, strings.Fields(saving), []string{history, "--compress", "topk:0.1", "--epochs", "3", "--resume"})...); o.code != 0 || !strings.Contains(o.stderr, "what worker 0 had not sent yet is left out") {
				t.Errorf("without a file: exit %d: %s", o.code, o.stderr)
			}
			// With others it goes on, or says why not.
			if want.Sync == train.BSP && want.Workers == 2 {
				if o := run(2, "--sync bsp --workers 1 --checkpoint-every 5steps --checkpoint", history, "--epochs", "3", "--resume"); !strings.Contains(o.stderr, "give --workers 2") {
					t.Error(o.stderr)
				}
			} else if o := psrt(t, slices.Concat(job, []string{"--checkpoint-every", "5steps", "--checkpoint", history, "--epochs", "3", "--resume"})...); o.code != 0 || !strings.Contains(o.stderr, "is left out") {
				t.Errorf("without topk: exit %d: %s", o.code, o.stderr)
			}
		})
	}
}

// TestTopDays: a checkpoint of topk waits for its workers, while worker 0 waits for it at the
// end of a day. The days end where they do in a job without checkpoints.
func TestTopDays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := write(t, dir, "train.libffm", rows(2300, 5))
	for _, c := range []struct{ name, life, every string }{
		{"a save for serving", "", "6steps"},    // which begins before step 7
		{"counts", "capacity: 100\n", "4steps"}, // before step 5
	} {
		t.Run(c.name, func(t *testing.T) {
			life := write(t, t.TempDir(), "life.yaml", "day: 1000\nembedx_threshold: 0.5\ndelete_threshold: 0.35\nshow_click_decay_rate: 0.8\n"+c.life)
			for _, workers := range []string{"1", "2"} {
				run := func(more ...string) train.Result {
					t.Helper()
					o := psrt(t, append([]string{"train", "--data", data, "--model", "fm", "--batch", "200", "--dataset", "queue", "--no-shuffle", "--compress", "topk:0.1", "--sync", "bsp", "--workers", workers,
						"--accessor", life, "--serving", filepath.Join(t.TempDir(), "served"), "--quiet", "--json"}, more...)...)
					if o.code != 0 {
						t.Fatalf("%s workers, %v: exit %d: %s", workers, more, o.code, o.stderr)
					}
					return resultOf(t, o.stdout)
				}
				want := run()
				got := run("--checkpoint", filepath.Join(t.TempDir(), "history"), "--checkpoint-every", c.every)
				if got.Checkpoints.Written == 0 || got.Checkpoints.Failed > 0 || got.Life.Days < 2 || got.Life.Serving.Bases == 0 {
					t.Errorf("%s workers: %+v, %+v", workers, got.Checkpoints, got.Life)
				}
				if got.Digest != want.Digest {
					t.Errorf("%s workers: digest %s, without checkpoints %s", workers, got.Digest, want.Digest)
				}
			}
		})
	}
}

func TestCompressFlag(t *testing.T) {
	data := write(t, t.TempDir(), "train.libffm", rows(200, 1))
	for _, c := range []struct{ args, says string }{
		{"--compress fp8", "none of auto, none, fp16, int8, topk:R and topk:R:N"},
		{"--compress topk:2", "want topk:R"},
		{"--compress topk:0.1:few", "want topk:R"},
		{"--compress topk:0.1:-1", "0 to 1000"},
		{"--compress int8 --audit " + t.TempDir(), "leave out one of them"},
		{"--merge-pushes 1", "want off, auto, or 2 to 8"},
		{"--merge-pushes 2 --sync bsp", "or ssp with --staleness 2 or more"},
		{"--merge-pushes 3 --sync ssp --staleness 2", "give --staleness 3 or more"},
		{"--merge-pushes auto --sync ssp --staleness 1 --optimizer sgd", "give --staleness 2 or more"},
		{"--merge-pushes auto --sync asp --optimizer adam", "use sgd or adagrad"},
		{"--merge-pushes 2 --sync asp --compress topk:0.1", "topk keeps rows by itself"},
		{"--merge-pushes auto --sync asp --optimizer sgd --compress auto", "leave one of them out"},
		{"--merge-pushes 2 --sync asp --workers 2 --combine host", "what a worker keeps is pushed in steps of its own"},
		{"--merge-pushes 2 --sync asp --audit " + t.TempDir(), "--merge-pushes 2 with --audit"},
		{"--compress topk:0.1 --sync bsp --stream --resume --checkpoint " + t.TempDir(), "resume with --compress fp16"},
	} {
		if o := psrt(t, append([]string{"train", "--data", data}, strings.Fields(c.args)...)...); o.code != 2 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%s: exit %d, want %q: %s", c.args, o.code, c.says, o.stderr)
		}
	}
}
