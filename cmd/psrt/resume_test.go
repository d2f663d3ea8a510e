package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/train"
	"psrt/tiers/ckpt"
)

// TestKilledAndResumed: a job whose processes are all killed at any moment, and
// that goes on each time from its newest checkpoint with another number of
// servers and other files, ends with the model of one that nobody killed.
func TestKilledAndResumed(t *testing.T) {
	t.Parallel()
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
	began := time.Now()
	o := psrt(t, args...)
	undisturbed := time.Since(began)
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	want := result(o.stdout)
	args = append(args, "--checkpoint", filepath.Join(dir, "history"), "--checkpoint-every", "10steps", "--resume")
	out, kills := killedUntilDone(t, rng, undisturbed, func() []string {
		compress := []string{compressNone, ckpt.CompressLZ4}[rng.IntN(2)]
		return append(args, "--servers", string(rune('1'+rng.IntN(3))), "--checkpoint-compress", compress)
	})
	res := result(out)
	if res.Digest != want.Digest || *res.AUC != *want.AUC || res.Examples != want.Examples {
		t.Errorf("after %d kills: digest %s, AUC %v, %d examples; without %s, %v, %d", kills, res.Digest, *res.AUC, res.Examples, want.Digest, *want.AUC, want.Examples)
	}
	t.Logf("%d kills; the last part: %+v", kills, *res.Checkpoints)
}

// TestMoreEpochs: what was trained for an epoch goes on for more, however the one alone was
// read.
func TestMoreEpochs(t *testing.T) {
	dir := t.TempDir()
	args := []string{"train", "--data", write(t, dir, "train.libffm", rows(2000, 1)), "--model", "lr", "--sync", "bsp", "--json",
		"--checkpoint", filepath.Join(dir, "history"), "--checkpoint-every", "5steps", "--batch", "200"}
	for _, epochs := range []string{"1", "3"} {
		o := psrt(t, append(args, "--resume", "--epochs", epochs)...)
		var res train.Result
		if o.code != 0 || json.Unmarshal([]byte(o.stdout), &res) != nil {
			t.Fatalf("%s epochs: exit %d, %s", epochs, o.code, o.stderr)
		}
		if want := map[string]int64{"1": 2000, "3": 6000}[epochs]; res.Examples != want {
			t.Errorf("%s epochs: %d examples, want %d", epochs, res.Examples, want)
		}
	}
}

// TestLostBestWithoutMoreEpochs: a job that goes on from the end of its last epoch, and whose best model is gone, keeps the newest.
func TestLostBestWithoutMoreEpochs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, ck := write(t, dir, "t.ffm", labelled(600, func(i int) int { return i * 7 % 3 % 2 }, 1)), filepath.Join(dir, "ck")
	args := []string{"train", "--data", data, "--valid", data, "--sync", "bsp", "--patience", "0", "--checkpoint-every", "1steps", "--quiet", "--json"}
	if got := psrt(t, append(args, "--checkpoint", ck, "--epochs", "4")...); got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}
	if err := os.RemoveAll(ck + ".best"); err != nil {
		t.Fatal(err)
	}
	var res train.Result
	got := psrt(t, append(args, "--checkpoint", ck+"@2", "--epochs", "2", "--resume")...)
	if err := json.Unmarshal([]byte(got.stdout), &res); err != nil || got.code != 0 || res.BestEpoch != 2 || res.LogLoss == nil {
		t.Fatalf("exit %d, %v, epoch %d: %s", got.code, err, res.BestEpoch, got.stderr)
	}
	if got := psrt(t, "eval", "--model", ck+".best", "--data", data, "--json"); got.code != 0 || !strings.Contains(got.stdout, fmt.Sprint(*res.LogLoss)) {
		t.Errorf("eval of the newest: %d, %s%s; want log loss %v", got.code, got.stdout, got.stderr, *res.LogLoss)
	}
}
