//go:build cgo

package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"psrt/csrc/accel/acceltest"
	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/sched/server"
	"psrt/tiers/hbm/pick"
)

// failVariable is of the fake driver, which reads it once in a process.
const failVariable = "PSRT_FAKE_CUDA_FAIL"

// TestDriverFailsInJob: a job whose device fails at any of its launches ends, and says
// that it was the device. Each runs in a process of its own.
func TestDriverFailsInJob(t *testing.T) {
	if os.Getenv(failVariable) != "" {
		j := *sampleJob(t, "fm")
		j.Device = &pick.Device{Kind: pick.GPU, Bytes: 1 << 20}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		_, err := RunInProcess(ctx, &j, "shm", nil)
		var lost *server.DeviceError
		if !errors.As(err, &lost) || !strings.Contains(err.Error(), "CUDA_ERROR_LAUNCH_FAILED") || !strings.Contains(err.Error(), "--hbm-budget") {
			t.Errorf("the job ends with %v", err)
		}
		return
	}
	library := cudatest.Build(t)
	for _, launch := range some([]int{1, 2, 3, 4, 5, 20}) {
		t.Run(fmt.Sprint(launch), func(t *testing.T) {
			c := exec.Command(os.Args[0], "-test.run=^TestDriverFailsInJob$", "-test.v")
			c.Env = append(os.Environ(), cuda.Variable+"="+library, fmt.Sprintf("%s=%d", failVariable, launch))
			if text, err := c.CombinedOutput(); err != nil || !strings.Contains(string(text), "--- PASS") {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

// TestTableFailsInJob: so does one whose accelerator is a library's, in the library's words.
func TestTableFailsInJob(t *testing.T) {
	j := *sampleJob(t, "fm")
	j.Device = &pick.Device{Kind: pick.Library + acceltest.Build(t), Bytes: 1 << 20}
	t.Setenv("PSRT_TWIN_FAIL", "5")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	_, err := RunInProcess(ctx, &j, "shm", nil)
	var lost *server.DeviceError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "the twin was told to fail") || !strings.Contains(err.Error(), "--hbm-budget") {
		t.Errorf("the job ends with %v", err)
	}
}
