//go:build cgo

package job

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/tiers/hbm/pick"
)

// lacksVariable is the digest of a job without a device, for a process whose driver lacks
// something.
const lacksVariable = "PSRT_JOB_TEST_DIGEST"

// TestDriverLacksInJob: without a driver, a card or room on it a job's rows stay in the tiers
// below, and its model is the same. Each runs in a process of its own, since a driver is
// loaded once.
func TestDriverLacksInJob(t *testing.T) {
	base := *sampleJob(t, "fm")
	if want := os.Getenv(lacksVariable); want != "" {
		base.Device = &pick.Device{Kind: pick.GPU, Bytes: 1 << 20}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		res, err := RunInProcess(ctx, &base, "shm", nil)
		if err != nil {
			t.Fatal(err)
		}
		if s := res.ServerUse[0].Tables[0].Tiers; res.Digest != want || s != nil && s.DeviceHits+s.DeviceMisses > 0 {
			t.Errorf("digest %s, want %s; rows on a device: %+v", res.Digest, want, s)
		}
		return
	}
	want, library := run(t, base, "shm").Digest, cudatest.Build(t)
	for name, env := range map[string][]string{
		"no driver": {cuda.Variable + "=" + filepath.Join(t.TempDir(), "libcuda.so.1")},
		"no card":   {cuda.Variable + "=" + library, "PSRT_FAKE_CUDA_DEVICES=0"},
		"no room":   {cuda.Variable + "=" + library, "PSRT_FAKE_CUDA_BYTES=100000"},
	} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command(os.Args[0], "-test.run=^TestDriverLacksInJob$", "-test.v")
			c.Env = append(append(os.Environ(), lacksVariable+"="+want), env...)
			if text, err := c.CombinedOutput(); err != nil || !strings.Contains(string(text), "--- PASS") {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}
