package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"psrt/sched/train"
	"psrt/sched/train/metric"
)

// labelled are rows of libffm: the label of each, and the value of field 1.
func labelled(n int, label func(i int) int, value float64) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d 0:%d:1 1:%d:%g\n", label(i), i%7, 100+i%3, value*float64(i%10)/9)
	}
	return b.String()
}

// Validation data of one class choose by log loss, in every place that has figures.
func TestOneClassHasNoAUC(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := write(t, dir, "t.ffm", labelled(600, func(i int) int { return i % 2 }, 1))
	valid := write(t, dir, "v.ffm", labelled(50, func(int) int { return 1 }, 1))
	model, page := filepath.Join(dir, "m"), filepath.Join(dir, "r.html")
	got := psrt(t, "train", "--data", data, "--valid", valid, "--epochs", "2", "--out", model, "--report", page, "--quiet", "--json")
	var res train.Result
	if err := json.Unmarshal([]byte(got.stdout), &res); err != nil || got.code != 0 {
		t.Fatalf("exit %d, %v: %s", got.code, err, got.stderr)
	}
	if res.AUC != nil || res.LogLoss == nil || res.Evaluated != 50 || len(res.Warnings) != 1 || strings.Count(got.stderr, "warning: all 50 labels") != 1 {
		t.Errorf("AUC %v, log loss %v, %d rows, %q; stderr %s", res.AUC, res.LogLoss, res.Evaluated, res.Warnings, got.stderr)
	}
	best := 0
	for i, e := range res.Epochs {
		if *e.Valid.LogLoss < *res.Epochs[best].Valid.LogLoss {
			best = i
		}
	}
	if res.BestEpoch != best+1 {
		t.Errorf("epoch %d is kept, %d has the least log loss", res.BestEpoch, best+1)
	}
	var r struct {
		metric.Report
		Warnings []string
	}
	got = psrt(t, "eval", "--model", model, "--data", valid, "--json")
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || r.AUC != nil || r.Examples != 50 || len(r.Warnings) != 1 {
		t.Errorf("eval: %v, %s", err, got.stdout)
	}
	if got = psrt(t, "eval", "--model", model, "--data", valid); !strings.Contains(got.stdout, "AUC          -") || !strings.Contains(got.stdout, "rows         50") {
		t.Errorf("eval: %s", got.stdout)
	}
	got = psrt(t, "export", "--checkpoint", model, "--out", filepath.Join(dir, "e"), "--data", valid, "--json")
	r.Warnings = nil
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || len(r.Warnings) != 1 || strings.Count(got.stderr, "warning: all 50 labels") != 1 {
		t.Errorf("export: %v, %s; stderr %s", err, got.stdout, got.stderr)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(labelled(50, func(i int) int { return i % 2 }, 1)))
	must(t, errors.Join(err, z.Close()))
	got = psrt(t, "eval", "--model", model, "--data", write(t, dir, "v.ffm.gz", packed.String()+"behind it"), "--json")
	r.Warnings = nil
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "no gzip data") {
		t.Errorf("eval of a file with bytes behind its end: %v, %s; stderr %s", err, got.stdout, got.stderr)
	}
}

// A fit that is worse than the mean label is told of, with the field to look at.
func TestHopelessFitIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, task := range []string{"ctr", "regression"} {
		data := write(t, dir, task, labelled(2000, func(i int) int { return i * 7 % 3 % 2 }, 1e6))
		got := psrt(t, "train", "--data", data, "--format", "libffm", "--task", task, "--quiet", "--json")
		var res train.Result
		if err := json.Unmarshal([]byte(got.stdout), &res); err != nil || got.code != 0 {
			t.Fatalf("%s: exit %d, %v: %s", task, got.code, err, got.stderr)
		}
		if len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "values of field 1 go up to 1e+06") || !strings.Contains(got.stderr, res.Warnings[0]) {
			t.Errorf("%s: warnings %q; stderr %s", task, res.Warnings, got.stderr)
		}
	}
}

// A number that was given is never taken for one that was not.
func TestZeroIsAValue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := write(t, dir, "t.ffm", labelled(600, func(i int) int { return i % 2 }, 1))
	model := filepath.Join(dir, "m")
	run := func(args ...string) (res train.Result) {
		got := psrt(t, append([]string{"train", "--data", data, "--sync", "bsp", "--quiet", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(got.stdout), &res); err != nil || got.code != 0 {
			t.Fatalf("%q: exit %d, %v: %s", args, got.code, err, got.stderr)
		}
		return res
	}
	first := run("--epochs", "0", "--out", model)
	if first.Examples != 0 || len(first.Epochs) != 0 || first.BestEpoch != 0 || first.EvaluatedOn != "train" || first.Evaluated != 600 || first.LogLoss == nil || first.Digest == "" {
		t.Errorf("--epochs 0: %+v", first)
	}
	if got := psrt(t, "eval", "--model", model, "--data", data, "--json"); got.code != 0 || !strings.Contains(got.stdout, fmt.Sprint(*first.LogLoss)) {
		t.Errorf("eval of the first model: %d, %s%s", got.code, got.stdout, got.stderr)
	}
	chosen := filepath.Join(dir, "v")
	if got := run("--epochs", "0", "--valid", data, "--out", chosen); got.Digest != first.Digest || got.EvaluatedOn != "valid" {
		t.Errorf("--epochs 0 --valid: %+v", got)
	}
	if got := psrt(t, "eval", "--model", chosen, "--data", data, "--json"); got.code != 0 || !strings.Contains(got.stdout, fmt.Sprint(*first.LogLoss)) {
		t.Errorf("eval of the first model with --valid: %d, %s%s", got.code, got.stdout, got.stderr)
	}
	once, twice := run("--lr", "0", "--epochs", "1"), run("--lr", "0", "--epochs", "2")
	if *once.LogLoss != *twice.LogLoss || *once.AUC != *twice.AUC {
		t.Errorf("--lr 0: log loss %v after an epoch, %v after two", *once.LogLoss, *twice.LogLoss)
	}
	for _, bad := range [][]string{{"--lr", "0", "--optimizer", "ftrl"}, {"--threads", "0"}, {"--fields", "0"}, {"--out="}, {"--epochs", "0", "--stream"}} {
		if got := psrt(t, append([]string{"train", "--data", data}, bad...)...); got.code != 2 || !strings.Contains(got.stderr, strings.TrimSuffix(bad[0], "=")) {
			t.Errorf("%q: exit %d: %s", bad, got.code, got.stderr)
		}
	}
	config := write(t, dir, "c.yaml", "threads: 0\n")
	if got := psrt(t, "train", "--data", data, "--config", config); got.code != 2 || !strings.Contains(got.stderr, "c.yaml:1: --threads 0") {
		t.Errorf("--config: exit %d: %s", got.code, got.stderr)
	}
}
