//go:build cgo

package job

import (
	"fmt"
	"strings"
	"testing"

	"psrt/csrc/accel/acceltest"
	"psrt/sched/train"
	"psrt/sched/train/model"
	"psrt/tiers/hbm/pick"
)

// exactLayers says whether all dense ranks computed on devices that have the processor's bits,
// as they have where BLAS adds in chains.
func exactLayers(res *train.Result) bool {
	return !strings.Contains(strings.Join(res.Heter.Layers, "\n"), "last bits")
}

// TestSameDigestDenseDevice: dense ranks whose layers are computed on a device, whichever, make
// one model, and where the device has the processor's bits that of a job without.
func TestSameDigestDenseDevice(t *testing.T) {
	kinds := deviceKinds(t)
	for _, kind := range some([]string{model.DeepFM, model.DCN}) {
		base := sampleJob(t, kind)
		base.Batch = 512 // the last has 440 rows
		want := run(t, *base, "shm").Digest
		for i, device := range kinds {
			j := *base
			j.Workers, j.Heter, j.Servers, j.DenseDevice = 2, 1+i%2, 2, device
			res := run(t, j, "shm")
			if len(res.Heter.Layers) != j.Heter || !strings.Contains(res.Heter.Layers[0], "computes its layers on") || strings.Contains(res.Heter.Layers[0], "processor:") {
				t.Errorf("%s on %s: %q", kind, device, res.Heter.Layers)
			}
			if !exactLayers(res) && i == 0 {
				t.Logf("%s: %q", kind, res.Heter.Layers)
				want = res.Digest
			}
			if res.Digest != want {
				t.Errorf("%s on %s: digest %s, want %s", kind, device, res.Digest, want)
			}
		}
	}
}

// TestDenseDeviceFails: a device that fails at any of its kernels in the middle of a job, and
// one without room: the rank goes on with the processor, says so, and no example is lost.
func TestDenseDeviceFails(t *testing.T) {
	base := sampleJob(t, model.DeepFM)
	base.Workers, base.Heter = 2, 1
	want := run(t, *base, "shm")
	for _, c := range []struct {
		variable, value, says string
	}{
		{"PSRT_TWIN_FAIL", "3", "computes its layers on the processor"},
		{"PSRT_TWIN_FAIL", "100", "goes on without its device"},
		{"PSRT_TWIN_BYTES", "2000", "out of memory"},
		{"", "", "cannot open shared object"},
	} {
		t.Run(fmt.Sprint(c.variable, c.value), func(t *testing.T) {
			j := *base
			j.DenseDevice = pick.Library + "/nowhere/accelerator.so"
			if c.variable != "" {
				t.Setenv(c.variable, c.value)
				j.DenseDevice = pick.Library + acceltest.Build(t, "-DOF="+c.value)
			}
			res := run(t, j, "shm")
			if said := strings.Join(res.Heter.Layers, "\n"); !strings.Contains(said, c.says) {
				t.Errorf("it says %q, want %q", said, c.says)
			}
			if res.Examples != want.Examples || exactLayers(res) && res.Digest != want.Digest {
				t.Errorf("%d examples, digest %s; without a device %d, %s", res.Examples, res.Digest, want.Examples, want.Digest)
			}
		})
	}
}
