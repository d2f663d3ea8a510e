package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/train"
)

// streamed is a job that reads a directory and ends when nothing comes.
func streamed(dir string, more ...string) []string {
	return append([]string{"train", "--stream", "--data", dir, "--stream-settle", "100ms", "--stream-idle", "3s",
		"--model", "fm", "--dim", "4", "--batch", "200", "--sync", "bsp", "--workers", "2", "--json"}, more...)
}

func resultOf(t *testing.T, stdout string) (res train.Result) {
	t.Helper()
	if err := json.Unmarshal([]byte(stdout), &res); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	return res
}

// incoming writes n files of rows, of different lengths, and gives all of them.
func incoming(t *testing.T, dir string, n int) (text string) {
	for i := range n {
		part := rows(300+i*137%500, uint64(i+1))
		name := fmt.Sprintf("part-%03d", i)
		if i%3 == 1 {
			write(t, dir, name+".gz", gz(part))
		} else {
			write(t, dir, name, part)
		}
		text += part
	}
	return text
}

// TestStream: what is there when a stream begins is trained as a queue of the same
// files would be, and what comes later is trained once, whatever the passes.
func TestStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	text := incoming(t, in, 5)
	o := psrt(t, "train", "--data", in, "--dataset", "queue", "--no-shuffle", "--model", "fm", "--dim", "4", "--batch", "200", "--sync", "bsp", "--json")
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	want := resultOf(t, o.stdout)
	o = psrt(t, streamed(in)...)
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	if got := resultOf(t, o.stdout); got.Digest != want.Digest || got.Examples != want.Examples || len(got.Epochs) != 1 {
		t.Errorf("streamed: digest %s of %d examples in %d passes; as a queue %s of %d", got.Digest, got.Examples, len(got.Epochs), want.Digest, want.Examples)
	}

	// More comes while it runs: written in place and under other names. It is over with
	// the last row, whenever that has come.
	const pass, passes = 695, 6
	history := filepath.Join(dir, "history")
	cmd := command(t.Context(), streamed(in, "--pass", fmt.Sprint(pass), "--checkpoint", history, "--checkpoint-every", "3steps", "--stream-idle", "1h", "--epochs", fmt.Sprint(passes))...)
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	all := int64(strings.Count(text, "\n"))
	for i := range 4 {
		part := rows(150+200*i, uint64(i+50))
		all += int64(strings.Count(part, "\n"))
		write(t, in, fmt.Sprintf("late-%d.tmp", i), part)
		time.Sleep(300 * time.Millisecond) // others come while some are being read, or while none is
		if err := os.Rename(filepath.Join(in, fmt.Sprintf("late-%d.tmp", i)), filepath.Join(in, fmt.Sprintf("late-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	got := resultOf(t, out.String())
	if got.Examples != all || all != pass*passes || len(got.Epochs) != passes {
		t.Errorf("%d examples in %d passes, want %d in %d of %d", got.Examples, len(got.Epochs), all, passes, pass)
	}
	for _, e := range got.Epochs {
		if e.Rows != pass {
			t.Errorf("pass %d has %d rows", e.Epoch, e.Rows)
		}
	}
	if got.Checkpoints.Written == 0 || got.Checkpoints.Failed > 0 {
		t.Errorf("checkpoints: %+v", got.Checkpoints)
	}
	log, err := os.ReadFile(filepath.Join(history, "stream.log"))
	if err != nil || strings.Count(string(log), `"file"`) != 9 {
		t.Errorf("the log: %s, %v", log, err)
	}
	if o := psrt(t, "checkpoint", "verify", history); o.code != 0 {
		t.Errorf("verify: %s", o.stderr)
	}
	// Nothing new: resumed, it is over at once, with the same model.
	o = psrt(t, streamed(in, "--pass", fmt.Sprint(pass), "--checkpoint", history, "--checkpoint-every", "3steps", "--resume")...)
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	if again := resultOf(t, o.stdout); again.Digest != got.Digest || again.Examples != all {
		t.Errorf("resumed behind its end: %s of %d examples, want %s of %d", again.Digest, again.Examples, got.Digest, all)
	}
}

// TestStreamKilledAndResumed: a job that is killed at any moment, and goes on from its
// newest checkpoint each time, trains every file once and ends with the model of one
// that nobody killed.
func TestStreamKilledAndResumed(t *testing.T) {
	t.Parallel()
	rng := seedtest.Rand(t)
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	incoming(t, in, 60)
	began := time.Now()
	o := psrt(t, streamed(in, "--pass", "1300")...)
	undisturbed := time.Since(began)
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	want := resultOf(t, o.stdout)
	args := streamed(in, "--pass", "1300", "--checkpoint", filepath.Join(dir, "history"), "--checkpoint-every", "4steps", "--resume")
	out, kills := killedUntilDone(t, rng, undisturbed, func() []string {
		return append(args, "--servers", string(rune('1'+rng.IntN(2))))
	})
	got := resultOf(t, out)
	if got.Digest != want.Digest || got.Examples != want.Examples || len(got.Epochs) != len(want.Epochs) {
		t.Errorf("after %d kills: %s of %d examples in %d passes; without %s of %d in %d", kills, got.Digest, got.Examples, len(got.Epochs), want.Digest, want.Examples, len(want.Epochs))
	}
	t.Logf("%d kills; %+v", kills, *got.Checkpoints)
}

// TestStreamServes: each pass is a day, after which there is a model to serve, and it is
// told how long that took.
func TestStreamServes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, served := filepath.Join(dir, "in"), filepath.Join(dir, "served")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	text := incoming(t, in, 6)
	life := write(t, dir, "life.yaml", "{day: pass, serving_base_every: 100, base_threshold: 0, delta_threshold: 0}\n")
	o := psrt(t, streamed(in, "--pass", "1000", "--accessor", life, "--serving", served)...)
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	got := resultOf(t, o.stdout)
	passes := (strings.Count(text, "\n") + 999) / 1000
	l := got.Life
	if len(got.Epochs) != passes || l == nil || l.Days != passes || l.Serving.Bases != 1 || l.Serving.Deltas != passes-1 || l.Serving.Failed != 0 {
		t.Fatalf("%d passes, want %d: %+v, %+v", len(got.Epochs), passes, l, l.Serving)
	}
	if s := l.Serving; s.LastLatencySeconds <= 0 || s.LatencySeconds < s.LastLatencySeconds || s.LatencySeconds < s.WriteSeconds || s.LatencySeconds > got.WallSeconds {
		t.Errorf("latency %v, the last %v, of it writing %v, in a run of %v s", s.LatencySeconds, s.LastLatencySeconds, s.WriteSeconds, got.WallSeconds)
	}
	if o := psrt(t, "predict", "--model", served, "--data", filepath.Join(in, "part-000")); o.code != 0 {
		t.Errorf("predict by what is served: %s", o.stderr)
	}
}

// TestStreamWorkersDie: whoever goes on for a worker of a stream, the first among them,
// reads on where it was.
func TestStreamWorkersDie(t *testing.T) {
	t.Parallel()
	rng := seedtest.Rand(t)
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	incoming(t, in, 40)
	o := psrt(t, streamed(in, "--pass", "2100")...)
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	want, taken := resultOf(t, o.stdout), 0
	for run, loss := range []string{"restart", "continue"} {
		more := []string{"--pass", "2100", "--on-worker-loss", loss, "--worker-timeout", "8s", "--threads", "1"}
		if run == 1 {
			more = append(more, "--checkpoint", filepath.Join(dir, "history"), "--checkpoint-every", "20steps")
		}
		ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
		j := startJob(t, ctx, streamed(in, more...)...)
		j.says(t, "epoch  1 ")
		for worker := range 2 {
			if pid := j.ranks()[1+worker]; pid != 0 && !j.over() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				j.says(t, fmt.Sprintf("worker %d is another process", worker))
			}
			if loss == "continue" {
				break // nobody is left to go on for a second one
			}
			time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
		}
		got := j.result(t)
		cancel()
		taken += len(got.Takeovers)
		exact := !slices.ContainsFunc(got.Takeovers, func(t train.Takeover) bool { return !t.Exact })
		if got.Examples != want.Examples || len(got.Epochs) != len(want.Epochs) || exact && got.Digest != want.Digest {
			t.Errorf("%s, %v: %s of %d examples in %d passes; undisturbed %s of %d in %d", loss, got.Takeovers, got.Digest, got.Examples, len(got.Epochs), want.Digest, want.Examples, len(want.Epochs))
		}
	}
	if taken == 0 {
		t.Error("nobody was taken over: the test proved nothing")
	}
}

// TestStreamInPasses: passes end within files, by time (when, sched/train's tests say) or
// rows, and no row is lost.
func TestStreamInPasses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a", rows(60000, 1))
	write(t, dir, "b.gz", gz(rows(40000, 2)))
	got := resultOf(t, psrt(t, streamed(dir, "--pass", "20ms", "--batch", "100", "--epochs", "1000000", "--stream-idle", "1s")...).stdout)
	if got.Examples != 100000 {
		t.Errorf("%d examples in %d passes", got.Examples, len(got.Epochs))
	}
	for _, e := range got.Epochs[:len(got.Epochs)-1] {
		if e.Rows == 0 {
			t.Errorf("pass %d has no rows", e.Epoch)
		}
	}
	// By passes, the rest is left.
	got = resultOf(t, psrt(t, streamed(dir, "--pass", "5000", "--epochs", "3")...).stdout)
	if got.Examples != 15000 || len(got.Epochs) != 3 {
		t.Errorf("%d examples in %d passes, want 3 of 5000", got.Examples, len(got.Epochs))
	}
}

// What cannot be a stream is refused, in a line that says what to do.
func TestStreamRefused(t *testing.T) {
	dir := t.TempDir()
	data := write(t, dir, "a", rows(500, 1))
	other := write(t, t.TempDir(), "other.log", "no log\n")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--pass", "1h"}, "--pass is for --stream"},
		{[]string{"--stream", "--pass", "soon"}, "--pass soon"},
		{[]string{"--stream", "--pass", "0"}, "--pass 0"},
		{[]string{"--stream", "--dataset", "memory"}, "--dataset memory"},
		{[]string{"--stream", "--valid", data}, "--valid with --stream"},
		{[]string{"--stream", "--stream-settle", "0s"}, "--stream-settle"},
		{[]string{"--stream", "--checkpoint", "s3://bucket/x"}, "--stream-log"},
		{[]string{"--stream", "--checkpoint", filepath.Join(t.TempDir(), "h"), "--stream-log", other, "--resume"}, "no log of a stream"},
		{[]string{"--stream", "--data", filepath.Join(dir, "nowhere")}, "cannot be watched"},
	} {
		o := psrt(t, append([]string{"train", "--data", dir, "--stream-settle", "50ms", "--stream-idle", "1s"}[:3], c.args...)...)
		if o.code != 2 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%q: exit %d, want %q in\n%s", c.args, o.code, c.says, o.stderr)
		}
	}
}
