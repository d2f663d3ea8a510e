package train

import (
	"testing"

	"psrt/sched/compress"
)

// Hosts pull and push as one by themselves only where the model does not depend on it.
func TestCombineAuto(t *testing.T) {
	for _, c := range []struct {
		sync string
		code compress.Code
		want bool
	}{{BSP, compress.Floats, true}, {BSP, compress.Half, false}, {BSP, compress.Byte, false}, {ASP, compress.Half, true}, {ASP, compress.Top, false}} {
		j := &Job{Workers: 2, Sync: c.sync, Combine: CombineAuto, Compress: compress.Choice{Code: c.code}}
		if got := j.Combines(); got != c.want {
			t.Errorf("%s, compressed by code %d: combined %v", c.sync, c.code, got)
		}
		if j.Combine = CombineHost; !j.Combines() {
			t.Errorf("%s, compressed by code %d: not combined where it is asked for", c.sync, c.code)
		}
	}
}
