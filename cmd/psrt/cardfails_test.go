package main

import (
	"slices"
	"strings"
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
)

// TestCardFails: cards that fail in the middle of a training are told with what follows: servers
// go on without them, and the model is the undisturbed one's. Where nothing was written down the job
// ends, and says what would have kept it.
func TestCardFails(t *testing.T) {
	args := strings.Fields("train --data " + supportData(t) + "/rows.libffm --format libffm --model fm --batch 200 --threads 1 --seed 7 --servers 2 --workers 1 --sync bsp --json --hbm-budget 2MiB")
	life := "--accessor " + write(t, t.TempDir(), "life.yaml", "embedx_threshold: 0.5\ndelete_threshold: 0.35\nshow_click_decay_rate: 0.8\nday: 700\n")
	want := resultOf(t, psrt(t, append(args, "--hbm-device", "host")...).stdout).Digest
	living := resultOf(t, psrt(t, append(args, strings.Fields(life+" --hbm-device host")...)...).stdout)
	if living.Life.Days < 2 || living.Life.Deleted == 0 {
		t.Errorf("no feature goes: %+v", living.Life)
	}
	t.Setenv(cuda.Variable, cudatest.Build(t))
	for _, c := range []struct{ more, launch, want string }{{"", "40", want}, {"--replicas 2 --allow-same-host --groups 2", "40", want}, {life, "90", living.Digest}} {
		t.Setenv("PSRT_FAKE_CUDA_FAIL", c.launch)
		o := psrt(t, append(args, strings.Fields(c.more)...)...)
		if o.code != 0 {
			t.Errorf("%q: exit %d, %s", c.more, o.code, o.stderr)
			continue
		}
		res := resultOf(t, o.stdout)
		if res.Digest != c.want || !strings.Contains(o.stderr, "nothing is lost") || !strings.Contains(o.stderr, "CUDA_ERROR_LAUNCH_FAILED") {
			t.Errorf("%q: digest %s, want %s; it says\n%s", c.more, res.Digest, c.want, o.stderr)
		}
		for i, s := range res.ServerUse {
			if d := s.Tables[0].Tiers; d == nil || d.DeviceFailedParts == 0 || !strings.Contains(d.DeviceFailed, "GPU 0") {
				t.Errorf("%q: server %d says %+v", c.more, i, d)
			}
		}
	}
	t.Setenv("PSRT_FAKE_CUDA_FAIL", "40")
	if o := psrt(t, append(slices.Clone(args), "--hbm-journal", "0")...); o.code != 1 || !strings.Contains(o.stderr, "--hbm-journal") || !strings.Contains(o.stderr, "--replicas 2") {
		t.Errorf("without a journal: exit %d, %s", o.code, o.stderr)
	}
	if o := psrt(t, append(slices.Clone(args[:len(args)-2]), "--hbm-journal", "1MiB")...); o.code != 2 || !strings.Contains(o.stderr, "no effect without --hbm-budget") {
		t.Errorf("a journal of nothing: exit %d, %s", o.code, o.stderr)
	}
	// One of two servers' cards, with replicas and nothing written down: only that server's copies go.
	t.Setenv("PSRT_FAKE_CUDA_DEVICES", "2")
	t.Setenv("PSRT_FAKE_CUDA_LIKE", "1")
	t.Setenv("PSRT_FAKE_CUDA_FAIL_ON", "1")
	o := psrt(t, append(slices.Clone(args), strings.Fields("--replicas 2 --allow-same-host --groups 2 --hbm-journal 0")...)...)
	if o.code != 0 || resultOf(t, o.stdout).Digest != want || !strings.Contains(o.stderr, "CUDA_ERROR_LAUNCH_FAILED") {
		t.Errorf("a copy without a journal: exit %d, want digest %s, %s%s", o.code, want, o.stdout, o.stderr)
	}
}
