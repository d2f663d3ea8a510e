package main

import (
	"bytes"
	"strings"
	"testing"

	"psrt/rdma/mem"
	"psrt/sched/psmsg"
	"psrt/sched/train"
)

func TestUnknownCommand(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"trian", `unknown command "trian" (did you mean train?); see psrt --help`},
		{"evla", `(did you mean eval?)`},
		{"frobnicate", `unknown command "frobnicate"; see`},
	} {
		if o := psrt(t, c.arg); o.code != 2 || !strings.Contains(o.stderr, c.want) || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("psrt %s: exit %d, want 2 and %q in: %s", c.arg, o.code, c.want, o.stderr)
		}
	}
}

// A choice whose default is "nothing" shows what can be written, and only that.
func TestChoicesInHelp(t *testing.T) {
	o := psrt(t, "train", "--help")
	if !strings.Contains(o.stdout, "--dense-optimizer sgd|adagrad") {
		t.Errorf("help of --dense-optimizer:\n%s", o.stdout)
	}
	if o = psrt(t, "train", "--dense-optimizer", "x"); o.code != 2 || !strings.Contains(o.stderr, "must be one of sgd,") {
		t.Errorf("exit %d: %s", o.code, o.stderr)
	}
}

// Gradients that are not finite are told with the epoch as the output counts.
func TestEpochsCountFromOne(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	for range 64 {
		text.WriteString("1e30 1:1e30 2:1\n-1e30 1:1 2:1e30\n")
	}
	data := write(t, dir, "wild.libfm", text.String())
	o := psrt(t, "train", "--data", data, "--task", "regression", "--model", "fm", "--optimizer", "sgd", "--lr", "1e20", "--batch", "16")
	if o.code != 1 || !strings.Contains(o.stderr, "epoch 1, step 1 since the start") {
		t.Errorf("exit %d: %s", o.code, o.stderr)
	}
}

// The summary tells about pages where they cost, and nowhere else.
func TestPagesInTheSummary(t *testing.T) {
	small, huge := "table: 128 MiB, "+mem.SmallPages.String(), "table: 128 MiB, "+mem.TransparentPages.String()
	for _, c := range []struct {
		bytes  int64
		memory string
		want   bool
	}{{128 << 20, small, true}, {128 << 20, huge, false}, {1 << 20, small, false}} {
		var b bytes.Buffer
		printResult(&b, &train.Result{ServerUse: []psmsg.StatsReply{{TableBytes: c.bytes, Memory: c.memory}}})
		if got := strings.Contains(b.String(), c.memory); got != c.want {
			t.Errorf("%d bytes, %s: told %v, want %v", c.bytes, c.memory, got, c.want)
		}
	}
}
