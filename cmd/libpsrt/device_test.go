//go:build cgo

package main

import (
	"cmp"
	"os"
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
)

// Rows in a GPU's memory, from C: by a fake driver whose memory kills who touches it
// from the host, and which fails as it is told; with PSRT_GPU set by this machine's, which is told nothing.
func TestDevice(t *testing.T) {
	type try struct{ name, driver, variable, value string }
	const any = "PSRT_FAKE_CUDA_DEVICES"
	tries := []try{{"no driver", "/nowhere/libcuda.so.1", any, "1"}}
	if cudatest.Cards(t) > 0 {
		tries = append(tries, try{"card", cmp.Or(os.Getenv(cuda.Variable), cuda.Library), any, "1"})
	} else {
		library := cudatest.Build(t)
		tries = append(tries, try{"rows", library, any, "1"}, try{"not pinned", library, "PSRT_FAKE_CUDA_PINNED", "0"},
			try{"failing", library, "PSRT_FAKE_CUDA_COPIES", "1"})
	}
	for _, c := range tries {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(cuda.Variable, c.driver)
			t.Setenv("PSRT_FAKE_CUDA_FENCED", "1")
			t.Setenv(c.variable, c.value)
			over(t, func(t *testing.T, tr string) {
				w := servers(t, tr, 1)
				run(t, program(t, "device", "-ldl"), config(t, w, tr, 0), c.driver, c.name)
			})
		})
	}
}
