package main

import (
	"strings"
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/csrc/nccl"
	"psrt/csrc/nccl/nccltest"
)

// TestCollectiveNCCL: dense gradients added by NCCL, a fake one on fake cards, give the model
// of the ring, and so does the ring where NCCL cannot be used; which of them added is said.
func TestCollectiveNCCL(t *testing.T) {
	args := strings.Fields("train --data " + supportData(t) + "/rows.libffm --format libffm --model fm --batch 200 --lanes 1 --threads 1 --seed 7 --servers 1 --workers 2 --sync bsp --dense allreduce --quiet --json")
	o := psrt(t, args...)
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	want := resultOf(t, o.stdout)
	args = append(args, "--collective", "nccl")
	t.Setenv(cuda.Variable, cudatest.Build(t))
	t.Setenv("PSRT_FAKE_CUDA_DEVICES", "4")
	for library, added := range map[string]bool{nccltest.Build(t): true, "/nowhere/libnccl.so.2": false} {
		t.Setenv(nccl.Variable, library)
		o := psrt(t, args...)
		if o.code != 0 {
			t.Fatal(o.stderr)
		}
		got := resultOf(t, o.stdout)
		if got.Digest != want.Digest {
			t.Errorf("by %s: digest %s, by the ring %s", library, got.Digest, want.Digest)
		}
		s := got.DenseSums
		switch {
		case s == nil || s.NCCL == nil:
			t.Errorf("by %s: it says of the sums %+v", library, s)
		case added && (s.NCCL.Version == "" || !strings.Contains(s.NCCL.Card, "fake device")):
			t.Errorf("by %s: it says of NCCL %+v", library, s.NCCL)
		case !added && !strings.Contains(s.NCCL.Why, library):
			t.Errorf("without NCCL it says %+v", s.NCCL)
		}
	}
}
