//go:build cgo

package job

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"psrt/csrc/accel/acceltest"
	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/sched/train"
	"psrt/tiers/hbm/pick"
)

// goneVariable is the digest of an undisturbed job, for a process whose device fails.
const goneVariable = "PSRT_JOB_TEST_DIGEST_GONE"

// TestJobGoesOnWithoutDevice: a device that fails at any of its kernels, in any lane, over memory
// and over disks, costs a job with a journal nothing but speed: its model is the same. Each runs in
// a process of its own, as a driver is loaded once.
func TestJobGoesOnWithoutDevice(t *testing.T) {
	j := *sampleJob(t, "fm")
	j.Dataset, j.Batch, j.Workers, j.Lanes = "queue", 200, 2, 2
	if want := os.Getenv(goneVariable); want != "" {
		j.Device = &pick.Device{Kind: os.Getenv(goneVariable + "_KIND"), Bytes: 1 << 20, Journal: 256 << 10}
		if os.Getenv(goneVariable+"_DISKS") != "" {
			j.MaxBytes, j.Storage = 16<<20, &train.Storage{Dirs: []string{t.TempDir()}}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		res, err := RunInProcess(ctx, &j, "shm", nil)
		if err != nil {
			t.Fatal(err)
		}
		s := res.ServerUse[0].Tables[0].Tiers
		if res.Digest != want || s == nil || s.DeviceFailedParts == 0 || s.DeviceFailed == "" {
			t.Errorf("digest %s, want %s; on the device: %+v", res.Digest, want, s)
		}
		return
	}
	want, library := run(t, j, "shm").Digest, cudatest.Build(t)
	table := pick.Library + acceltest.Build(t)
	try := func(name string, env ...string) {
		t.Run(name, func(t *testing.T) {
			c := exec.Command(os.Args[0], "-test.run=^TestJobGoesOnWithoutDevice$", "-test.v")
			c.Env = append(append(os.Environ(), goneVariable+"="+want), env...)
			text, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(text), "--- PASS") {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
	for i, launch := range some([]int{1, 2, 3, 4, 5, 20, 60, 150}) {
		on := fmt.Sprintf("%s_DISKS=%s", goneVariable, []string{"", "1"}[i%2])
		try(fmt.Sprint("GPU ", launch), cuda.Variable+"="+library, goneVariable+"_KIND="+pick.GPU, fmt.Sprintf("%s=%d", failVariable, launch), on)
	}
	for _, run := range some([]int{5, 50}) {
		try(fmt.Sprint("library ", run), goneVariable+"_KIND="+table, fmt.Sprintf("PSRT_TWIN_FAIL=%d", run))
	}
}
