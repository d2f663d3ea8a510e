package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSettingsWithoutEffectAreRefused(t *testing.T) {
	dir := t.TempDir()
	data := write(t, dir, "train.libffm", rows(600, 1))
	for _, c := range []struct {
		args []string
		want string // "": accepted
	}{
		{[]string{"--model", "fm", "--dropout", "0.5"}, "--dropout 0.5"},
		{[]string{"--model", "lr", "--hidden", "8,4"}, "--hidden [8,4]"},
		{[]string{"--hidden", "8"}, "--model fm"},
		{[]string{"--model", "fm", "--batch-norm"}, "--batch-norm true"},
		{[]string{"--model", "deepfm", "--cross-layers", "3"}, "--cross-layers 3"},
		{[]string{"--model", "fm", "--config", write(t, dir, "a.yaml", "dropout: 0.1\n")}, "--dropout 0.1"},
		{[]string{"--model", "fm", "--dropout", "0", "--batch-norm=false"}, ""},
		{[]string{"--model", "dcn", "--hidden", "8", "--cross-layers", "1", "--dropout", "0.1"}, ""},
	} {
		o := psrt(t, append([]string{"train", "--data", data, "--quiet"}, c.args...)...)
		if c.want == "" && o.code != 0 || c.want != "" && (o.code != 2 || !strings.Contains(o.stderr, c.want) || strings.Count(o.stderr, "\n") != 1) {
			t.Errorf("%v: exit %d, %q expected in: %s", c.args, o.code, c.want, o.stderr)
		}
	}
}

// A job that is refused leaves no directory behind.
func TestNoOutputOfARefusedJob(t *testing.T) {
	dir := t.TempDir()
	data, out := write(t, dir, "train.libffm", rows(600, 1)), filepath.Join(dir, "model")
	for _, bad := range [][]string{{"--lr", "-1"}, {"--workers", "9", "--batch", "64"}, {"--workers", "40000"}, {"--workers", "600", "--batch", "307200"}, {"--model", "deepfm", "--dropout", "1"}} {
		o := psrt(t, append([]string{"train", "--data", data, "--out", out}, bad...)...)
		if _, err := os.Stat(out); o.code != 2 || !os.IsNotExist(err) {
			t.Errorf("%v: exit %d, and --out exists (%v): %s", bad, o.code, err, o.stderr)
		}
	}
}
