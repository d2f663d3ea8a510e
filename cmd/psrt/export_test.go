package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/train"
)

// trained is a small model and the rows to judge it by.
func trained(t *testing.T) (model, data string, res train.Result) {
	t.Helper()
	dir := t.TempDir()
	data = write(t, dir, "test.libffm", rows(1000, 2))
	model = filepath.Join(dir, "model")
	o := psrt(t, "train", "--data", write(t, dir, "train.libffm", rows(5000, 1)), "--test", data, "--model", "deepfm", "--hidden", "16,8",
		"--batch", "512", "--epochs", "2", "--servers", "2", "--sync", "bsp", "--lr", "0.02", "--out", model, "--json")
	if o.code != 0 || json.Unmarshal([]byte(o.stdout), &res) != nil {
		t.Fatalf("train: exit %d\n%s", o.code, o.stderr)
	}
	return model, data, res
}

// ok runs a command that must succeed and gives what it printed.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	o := psrt(t, args...)
	if o.code != 0 {
		t.Fatalf("psrt %v: exit %d\n%s", args, o.code, o.stderr)
	}
	return o.stdout
}

// TestExportThereAndBack goes the ways a user goes.
func TestExportThereAndBack(t *testing.T) {
	model, data, res := trained(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	scores := ok(t, "predict", "--model", model, "--data", data)

	out := ok(t, "export", "--checkpoint", model, "--out", at("serving"), "--data", data)
	if !strings.Contains(out, "embedding.rows: 300 rows of 17 weights, fp32") || !strings.Contains(out, "(+0.000000)") || !strings.Contains(out, res.Digest) {
		t.Errorf("export says:\n%s", out)
	}
	if ok(t, "predict", "--model", at("serving"), "--data", data) != scores {
		t.Error("the export predicts something else than the model")
	}
	var r struct{ AUC float64 }
	if err := json.Unmarshal([]byte(ok(t, "eval", "--model", at("serving"), "--data", data, "--json")), &r); err != nil || r.AUC != *res.AUC {
		t.Errorf("AUC of the export %v, of the model %v, %v", r.AUC, *res.AUC, err)
	}
	for _, q := range []string{"fp16", "int8"} {
		var e struct {
			Full   struct{ AUC float64 } `json:"evaluated_model"`
			Export struct{ AUC float64 } `json:"evaluated_export"`
			Tables []struct{ Encoding string }
		}
		b := ok(t, "export", "--checkpoint", model, "--out", at("serving"), "--quantize", q, "--data", data, "--json")
		if err := json.Unmarshal([]byte(b), &e); err != nil || e.Full.AUC != *res.AUC || e.Export.AUC < e.Full.AUC-0.002 || e.Tables[0].Encoding != q {
			t.Errorf("%s: %s, %v", q, b, err)
		}
		near(t, ok(t, "predict", "--model", at("serving"), "--data", data), scores)
	}

	ok(t, "export", "--checkpoint", model, "--out", at("text"), "--format", "text", "--state")
	if out := ok(t, "import", "--text", at("text"), "--out", at("again")); !strings.Contains(out, res.Digest+", as it was exported") {
		t.Errorf("import says:\n%s", out)
	}
	if ok(t, "predict", "--model", at("again"), "--data", data) != scores {
		t.Error("the imported model predicts something else")
	}
	ok(t, "export", "--checkpoint", at("again"), "--out", at("tensors"), "--format", "safetensors")
	for _, dir := range []string{"serving", "text", "tensors"} {
		if out := ok(t, "export", "verify", at(dir)); !strings.Contains(out, "is as it was written") {
			t.Errorf("verify of %s:\n%s", dir, out)
		}
	}
}

// near compares scores line by line.
func near(t *testing.T, got, want string) {
	t.Helper()
	a, b := strings.Fields(got), strings.Fields(want)
	if len(a) != len(b) {
		t.Fatalf("%d scores, want %d", len(a), len(b))
	}
	for i := range a {
		x, err1 := strconv.ParseFloat(a[i], 64)
		y, err2 := strconv.ParseFloat(b[i], 64)
		if err1 != nil || err2 != nil || x-y > 0.03 || y-x > 0.03 {
			t.Fatalf("row %d has score %s, want %s", i+1, a[i], b[i])
		}
	}
}

func TestExportMistakes(t *testing.T) {
	model, data, _ := trained(t)
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	ok(t, "export", "--checkpoint", model, "--out", text, "--format", "text")
	photos := filepath.Join(dir, "photos")
	if err := os.Mkdir(photos, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, photos, "a.jpg", "x")
	broken := filepath.Join(dir, "broken")
	ok(t, "export", "--checkpoint", model, "--out", broken)
	f, err := os.OpenFile(filepath.Join(broken, "embedding.rows"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff, 0xfe}, 6000); err != nil {
		t.Fatal(err)
	}
	f.Close()
	to := filepath.Join(dir, "new")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, "--checkpoint is missing", []string{"export", "--out", to}},
		{2, "--out is missing", []string{"export", "--checkpoint", model}},
		{2, "inference, text, safetensors", []string{"export", "--checkpoint", model, "--out", to, "--format", "onnx"}},
		{2, "fp16, int8", []string{"export", "--checkpoint", model, "--out", to, "--quantize", "fp8"}},
		{2, "--state", []string{"export", "--checkpoint", model, "--out", to, "--state"}},
		{2, "--quantize", []string{"export", "--checkpoint", model, "--out", to, "--format", "text", "--quantize", "int8"}},
		{2, "--data", []string{"export", "--checkpoint", model, "--out", to, "--format", "text", "--data", data}},
		{2, "no model there", []string{"export", "--checkpoint", photos, "--out", to}},
		{2, "a.jpg", []string{"export", "--checkpoint", model, "--out", photos}},
		{2, "what is read would be written over", []string{"export", "--checkpoint", model, "--out", model}},
		{2, "has the command verify", []string{"export", model}},
		{2, "0 directories", []string{"export", "verify"}},
		{2, "no export there", []string{"export", "verify", model}},
		{2, "embedding.rows is damaged", []string{"export", "verify", broken}},
		{2, "embedding.rows is damaged: the checksum of block 0", []string{"predict", "--model", broken, "--data", data}},
		{2, "psrt import --text", []string{"predict", "--model", text, "--data", data}},
		{2, "--text is missing", []string{"import", "--out", to}},
		{2, "--out is missing", []string{"import", "--text", text}},
		{2, "no such file", []string{"import", "--text", to, "--out", to + "er"}},
		{2, "has no .tsv file", []string{"import", "--text", model, "--out", to}},
	} {
		o := psrt(t, c.args...)
		if o.code != c.code || !strings.Contains(o.stderr, c.want) || strings.Contains(o.stderr, "goroutine ") || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("psrt %v: exit %d, want %d and %q in: %s", c.args, o.code, c.code, c.want, o.stderr)
		}
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("a mistake left a directory")
	}
}

// TestExportKilled ends exporting processes wherever they are: what is there
// afterwards is a whole export, and predicts as the model does.
func TestExportKilled(t *testing.T) {
	model, data, _ := trained(t)
	scores := ok(t, "predict", "--model", model, "--data", data)
	out := filepath.Join(t.TempDir(), "serving")
	args := []string{"export", "--checkpoint", model, "--out", out, "--quiet"}
	start := time.Now()
	ok(t, args...)
	whole := time.Since(start)
	rng := seedtest.Rand(t)
	kills := 8
	if s := os.Getenv("PSRT_KILLS"); s != "" {
		kills, _ = strconv.Atoi(s)
	}
	killed := 0
	for range kills {
		c := command(context.Background(), args...)
		c.Stdout = io.Discard
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(rng.Int64N(int64(whole))), func() { _ = c.Process.Kill() })
		if c.Wait() != nil {
			killed++
		}
		timer.Stop()
		if o := psrt(t, "export", "verify", out); o.code != 0 {
			t.Fatalf("after a kill: %s", o.stderr)
		}
	}
	t.Logf("%d of %d were killed before they ended", killed, kills)
	if ok(t, "predict", "--model", out, "--data", data) != scores {
		t.Error("after the kills the export predicts something else")
	}
	ok(t, args...) // cleans up
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(out), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
