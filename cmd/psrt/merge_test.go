package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/sched/train"
)

// TestMergePushes: with steps' rows merged, in asp and within the bound of ssp, a job learns
// what it learns without, fewer rows are sent, and none are left; also where it goes on from
// a checkpoint, which has what workers had kept.
func TestMergePushes(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "train.libffm")
	if o := psrt(t, "gen", "zipf", "--rows", "20000", "--fields", "6", "--vocab", "300", "--seed", "3", "--out", data); o.code != 0 {
		t.Fatal(o.stderr)
	}
	run := func(more ...string) train.Result {
		t.Helper()
		o := psrt(t, slices.Concat([]string{"train", "--data", data, "--model", "fm", "--dim", "8", "--batch", "500", "--epochs", "2", "--workers", "2", "--threads", "1", "--transport", "tcp", "--dataset", "queue", "--optimizer", "adagrad", "--lr", "0.05", "--quiet", "--json"}, more)...)
		if o.code != 0 {
			t.Fatalf("%s: exit %d: %s", more, o.code, o.stderr)
		}
		return resultOf(t, o.stdout)
	}
	plain := run("--sync", "asp")
	for _, flags := range []string{"--sync asp --merge-pushes 2", "--sync ssp --staleness 4 --merge-pushes 4 --compress fp16", "--sync asp --merge-pushes auto"} {
		res := run(strings.Fields(flags)...)
		u := res.Compress
		if u == nil || u.Merge == nil || u.KeptRows > 0 {
			t.Fatalf("%s: %+v", flags, u)
		}
		if auto := strings.HasSuffix(flags, "auto"); !auto && (u.Merge.Merged == 0 || u.Merge.Rows == 0 || u.PackedBytes >= u.FloatBytes) {
			t.Errorf("%s: %+v, %+v", flags, u, u.Merge)
		}
		if got, want := *res.Epochs[1].Train.AUC, *plain.Epochs[1].Train.AUC; got < want-.03 {
			t.Errorf("%s: AUC is %.5f, without %.5f", flags, got, want)
		}
	}
	saving := []string{"--sync", "ssp", "--staleness", "4", "--merge-pushes", "3", "--checkpoint", filepath.Join(dir, "history"), "--checkpoint-every", "7steps"}
	first := run(append(saving, "--epochs", "1")...)
	again := run(append(saving, "--epochs", "3", "--resume")...)
	if first.Checkpoints.Written == 0 || len(again.Epochs) == 0 || again.Compress.Merge.Merged == 0 || again.Compress.KeptRows > 0 {
		t.Errorf("%+v; resumed: %d epochs, %+v", first.Checkpoints, len(again.Epochs), again.Compress)
	}
}
