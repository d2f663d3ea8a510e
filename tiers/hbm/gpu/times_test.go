//go:build cgo

package gpu

import (
	"testing"

	"psrt/csrc/accel/acceltest"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm"
	"psrt/tiers/table"
)

// TestTimes: a device tells what copies in, kernels and copies out have taken.
func TestTimes(t *testing.T) {
	for name, d := range map[string]hbm.Device{"a driver": &Device{Library: driver(t)}, "a library": &Device{Accel: acceltest.Build(t)}, "the twin": hbm.Host{Node: -1}} {
		if tells := timesOf(t, d); tells.In <= 0 || tells.Kernels <= 0 || tells.Out <= 0 {
			t.Errorf("%s: %+v", name, tells)
		}
	}
}

// TestTimesOfBefore: a library that was built before devices told works, and tells nothing.
func TestTimesOfBefore(t *testing.T) {
	if tells := timesOf(t, &Device{Accel: acceltest.Build(t, "-DSIZE=offsetof(psrt_accel_ops, timed_event)")}); tells.In|tells.Kernels|tells.Out != 0 {
		t.Errorf("%+v", tells)
	}
}

func timesOf(t *testing.T, d hbm.Device) hbm.Times {
	t.Helper()
	spec := table.Spec{Name: "t", ID: 1, Dim: 16, Optimizer: table.Optimizer{Kind: table.Adam}}
	acc, err := accessor.New(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.Open(acc, newIndex(t, slots), slots, 100)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]uint32, 100)
	for i := range ids {
		ids[i] = uint32(i)
	}
	rows, refused := make([]float32, 100*acc.RowFloats()), 0
	for _, f := range []hbm.Fence{a.CopyIn(ids, rows), a.Update(ids, rows[:1600], &refused), a.Gather(ids, rows[:1600], 16), a.CopyOut(ids, rows)} {
		if err := a.Wait(f); err != nil {
			t.Fatal(err)
		}
	}
	tells := a.Times()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	return tells
}
