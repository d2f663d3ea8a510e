package main

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/sched/train"
	"psrt/tiers/hbm/pick"
)

// denseDeviceFlags are those of a job with dense ranks.
func denseDeviceFlags(flags ...string) []string {
	return append(flags, strings.Fields("--model deepfm --hidden 16,16 --dim 8 --batch 256 --servers 1 --workers 2 --threads 1 --seed 7 --sync bsp --json --heter --dense-ranks 2")...)
}

// TestDenseDevice: whatever dense ranks compute on, a fake card among it, the model is one, and
// that of the processor where they say that they have its bits. Where there is no card, or no
// such kind, it is said.
func TestDenseDevice(t *testing.T) {
	args := denseDeviceFlags("train", "--data", write(t, t.TempDir(), "train.libffm", rows(3000, 1)), "--epochs", "2")
	device := func(kind string, code int) (train.Result, string) {
		t.Helper()
		o := psrt(t, append(slices.Clone(args), "--dense-device", kind)...)
		if o.code != code {
			t.Fatalf("--dense-device %s: exit %d, want %d: %s", kind, o.code, code, o.stderr)
		}
		if code != 0 {
			return train.Result{}, o.stderr
		}
		return resultOf(t, o.stdout), o.stderr
	}
	t.Setenv(cuda.Variable, "/nowhere/libcuda.so.1")
	without, said := device(pick.GPU, 0)
	if !strings.Contains(said, "dense rank 1 computes its layers on the processor: cuda: not supported") || len(without.Heter.Layers) != 2 {
		t.Errorf("without a card it says %s, and %q", said, without.Heter.Layers)
	}
	t.Setenv(cuda.Variable, cudatest.Build(t))
	host, _ := device(pick.Host, 0)
	card, said := device(pick.GPU, 0)
	if !strings.Contains(said, "dense rank 1 computes its layers on GPU 0, fake device 0") {
		t.Errorf("with a card it says %s", said)
	}
	if card.Digest != host.Digest || card.Examples != host.Examples {
		t.Errorf("on a card the digest is %s of %d examples, by its kernels as C %s of %d", card.Digest, card.Examples, host.Digest, host.Examples)
	}
	if sameBits(card) && card.Digest != without.Digest {
		t.Errorf("on a card the digest is %s, on the processor %s", card.Digest, without.Digest)
	}
	if _, said := device("tpu", 2); !strings.Contains(said, "so:") {
		t.Errorf("a kind that there is not: %s", said)
	}
	if o := psrt(t, "train", "--data", args[2], "--dense-device", "host"); o.code != 2 || !strings.Contains(o.stderr, "--heter") {
		t.Errorf("without dense ranks: exit %d, %s", o.code, o.stderr)
	}
}

// sameBits says whether the devices of a job have the processor's bits.
func sameBits(res train.Result) bool {
	return !strings.Contains(strings.Join(res.Heter.Layers, " "), "last bits")
}

// TestDenseDeviceDies: a dense rank that computes on a device is killed in the middle of a pass,
// at whose end a worker waits. Another takes its place, and a device; the model is that of a job
// that nobody disturbed.
func TestDenseDeviceDies(t *testing.T) {
	const passes = 3
	flags, g := gated(t, rows(3000, 1), passes)
	args := append(denseDeviceFlags(flags...), "--dense-device", "host", "--stall-after", "0")
	o := psrt(t, args...)
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	want := resultOf(t, o.stdout)
	g.let(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), faultLimit)
	defer cancel()
	j := startJob(t, ctx, args...)
	if !j.says(t, "epoch  1 ") {
		t.Fatalf("it is over: %s", j.stderr.String())
	}
	const victim = 3 // behind a server and two workers
	pid := j.ranks()[victim]
	if pid == 0 {
		t.Fatalf("dense rank 0 does not run: %s", j.stderr.String())
	}
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, "another process is dense rank 0", func() bool { now := j.ranks()[victim]; return now != 0 && now != pid || j.over() })
	g.let(t, passes)
	res := j.result(t)
	if res.Digest != want.Digest || res.Examples != want.Examples {
		t.Errorf("digest %s of %d examples, undisturbed %s of %d; taken over: %v", res.Digest, res.Examples, want.Digest, want.Examples, res.Takeovers)
	}
	if len(res.Takeovers) != 1 || res.Takeovers[0].Rank != "dense rank 0" {
		t.Errorf("taken over: %v", res.Takeovers)
	}
}
