//go:build cgo

package cuda_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/accel"
	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/csrc/ptx"
)

// TestAccelerator: the driver as a table of functions, with a kernel that its text does
// not have: what is refused has the driver's words, each card's own, and its lack of memory
// is a table's.
func TestAccelerator(t *testing.T) {
	t.Setenv("PSRT_FAKE_CUDA_DEVICES", "2")
	t.Setenv("PSRT_FAKE_CUDA_OLD", "1")
	driver, err := cuda.Load(cudatest.Library(t))
	if err != nil {
		t.Fatal(err)
	}
	k := cuda.Kernels{Text: ptx.Text, Names: ptx.Kernels[1:], Lanes: ptx.Lanes, BlockThreads: ptx.BlockThreads}
	if _, err := driver.Accelerator(k); !errors.Is(err, accel.ErrNotSupported) {
		t.Errorf("with a kernel too few: %v", err)
	}
	k.Names = append(slices.Clone(k.Names), "psrt_nothing")
	l, err := driver.Accelerator(k)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := l.Devices(); n != 2 || err != nil || l.Name != "CUDA" {
		t.Errorf("%s shows %d devices, %v", l.Name, n, err)
	}
	if _, err := l.Open(2); err == nil || !strings.Contains(err.Error(), "open of device 2: CUDA_ERROR_") || accel.IsOutOfMemory(err) {
		t.Errorf("a third of two devices: %v", err)
	}
	d, err := l.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	free, total, err := d.Room()
	if err != nil || free <= 0 || free > total {
		t.Errorf("there are %d bytes of %d, %v", free, total, err)
	}
	if _, err := d.Alloc(int(total) + 1); !accel.IsOutOfMemory(err) || !strings.Contains(err.Error(), "CUDA_ERROR_OUT_OF_MEMORY") {
		t.Errorf("more than there is: %v", err)
	}
	for range 2 { // it is looked for again
		if _, err := d.NewStream(); err == nil || !strings.Contains(err.Error(), "psrt_nothing: CUDA_ERROR_NOT_FOUND") || accel.IsOutOfMemory(err) {
			t.Errorf("a kernel that is not there: %v", err)
		}
	}
	old, err := l.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.NewStream(); err == nil || !strings.Contains(err.Error(), "this device is too old") || strings.Contains(err.Error(), "psrt_nothing") {
		t.Errorf("a card that refuses the kernels for a reason of its own: %v", err)
	}
	if err := errors.Join(d.Close(), old.Close()); err != nil {
		t.Error(err)
	}
}
