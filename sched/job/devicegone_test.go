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

// goneVariable is what an undisturbed job has, for a process whose device fails.
const goneVariable = "PSRT_JOB_TEST_DIGEST_GONE"

// TestJobGoesOnWithoutDevice: a device that fails at any of its kernels, in any lane, over memory
// and over disks, costs a job with a journal nothing but speed: its model is the same.
func TestJobGoesOnWithoutDevice(t *testing.T) {
	j := *sampleJob(t, "fm")
	j.Dataset, j.Batch, j.Workers, j.Lanes = "queue", 200, 2, 2
	goesOnWithoutDevice(t, j, 256<<10, []int{1, 2, 3, 4, 5, 20, 60, 150}, []int{5, 50})
}

// TestLivesGoOnWithoutDevice: nor do days that end before and after it, whose rows decay, end and are
// born again.
func TestLivesGoOnWithoutDevice(t *testing.T) {
	j := *livingJob(t, "500")
	j.Workers, j.Lanes = 2, 2
	goesOnWithoutDevice(t, j, 32<<10, []int{1, 2, 5, 13, 40, 77, 140, 230, 350, 500}, []int{5, 90, 350})
}

// toldOf is what is to be the same.
func toldOf(res *train.Result) string {
	if l := res.Life; l != nil {
		return fmt.Sprint(res.Digest, l.Lives.Rows, l.Days, l.Events, l.Extended, l.Admitted)
	}
	return res.Digest
}

// goesOnWithoutDevice runs a job with a journal whose device fails at some launches, or, an accelerator's, at
// some runs. Each is in a process of its own, as a driver is loaded once.
func goesOnWithoutDevice(t *testing.T, j train.Job, journal int64, launches, runs []int) {
	if want := os.Getenv(goneVariable); want != "" {
		j.Device = &pick.Device{Kind: os.Getenv(goneVariable + "_KIND"), Bytes: 1 << 20, Journal: journal}
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
		if toldOf(res) != want || s == nil || s.DeviceFailedParts == 0 || s.DeviceFailed == "" {
			t.Errorf("digest %s, want %s; on the device: %+v", toldOf(res), want, s)
		}
		return
	}
	want, library := toldOf(run(t, j, "shm")), cudatest.Build(t)
	table := pick.Library + acceltest.Build(t)
	try := func(name string, env ...string) {
		t.Run(name, func(t *testing.T) {
			c := exec.Command(os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$", "-test.v")
			c.Env = append(append(os.Environ(), goneVariable+"="+want), env...)
			text, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(text), "--- PASS") {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
	for i, launch := range some(launches) {
		on := fmt.Sprintf("%s_DISKS=%s", goneVariable, []string{"", "1"}[i%2])
		try(fmt.Sprint("GPU ", launch), cuda.Variable+"="+library, goneVariable+"_KIND="+pick.GPU, fmt.Sprintf("%s=%d", failVariable, launch), on)
	}
	for _, run := range some(runs) {
		try(fmt.Sprint("library ", run), goneVariable+"_KIND="+table, fmt.Sprintf("PSRT_TWIN_FAIL=%d", run))
	}
}
