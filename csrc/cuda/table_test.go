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
// not have: what is refused has the driver's words, and its lack of memory is a table's.
func TestAccelerator(t *testing.T) {
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
	if n, err := l.Devices(); n != 1 || err != nil || l.Name != "CUDA" {
		t.Errorf("%s shows %d devices, %v", l.Name, n, err)
	}
	if _, err := l.Open(1); err == nil || !strings.Contains(err.Error(), "open of device 1: CUDA_ERROR_") || accel.IsOutOfMemory(err) {
		t.Errorf("a second of one device: %v", err)
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
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
