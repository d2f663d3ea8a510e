//go:build cgo

package main

import (
	"testing"

	"psrt/csrc/cuda/cudatest"
)

// Rows in a GPU's memory, from C: by a fake driver whose memory kills who touches it
// from the host, and which fails as it is told.
func TestDevice(t *testing.T) {
	library := cudatest.Build(t)
	for _, c := range []struct{ name, driver, variable, value string }{
		{"rows", library, "PSRT_FAKE_CUDA_DEVICES", "1"},
		{"not pinned", library, "PSRT_FAKE_CUDA_PINNED", "0"},
		{"failing", library, "PSRT_FAKE_CUDA_COPIES", "1"},
		{"no driver", "/nowhere/libcuda.so.1", "PSRT_FAKE_CUDA_DEVICES", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("PSRT_CUDA_LIBRARY", c.driver)
			t.Setenv("PSRT_FAKE_CUDA_FENCED", "1")
			t.Setenv(c.variable, c.value)
			over(t, func(t *testing.T, tr string) {
				w := servers(t, tr, 1)
				run(t, program(t, "device", "-ldl"), config(t, w, tr, 0), c.driver, c.name)
			})
		})
	}
}
