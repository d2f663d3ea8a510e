//go:build cgo

package nvml_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"psrt/csrc/nvml"
	"psrt/csrc/nvml/nvmltest"
)

// none is done once a process, before a library has loaded: that stays.
var none sync.Once

// TestLibrary: libraries that are none, and what cards have between them.
func TestLibrary(t *testing.T) {
	none.Do(func() { refused(t) })
	t.Setenv(nvml.Variable, nvmltest.Library(t))
	l, err := nvml.Load("")
	if err != nil {
		t.Fatal(err)
	}
	const one, two, three, four, five = "0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0", "0000:05:00.0"
	for bus, want := range map[string][2]int{one: {2, 2}, two: {1, 2}, three: {0, 0}, five: {0, 2}} {
		if up, all, err := l.Links(bus); up != want[0] || all != want[1] || err != nil {
			t.Errorf("%s has %d of %d links up, %v, want %v", bus, up, all, err, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want nvml.Way
	}{{one, two, nvml.Way{NVLink: true, Peer: true}}, {one, three, nvml.Way{Peer: true}}, {four, two, nvml.Way{}}} {
		if w, err := l.Between(c.a, c.b); w != c.want || err != nil {
			t.Errorf("%s to %s: %+v, %v, want %+v", c.a, c.b, w, err, c.want)
		}
	}
	if _, err := l.Between(one, "0000:09:00.0"); err == nil || !strings.Contains(err.Error(), "from 0000:01:00.0 to 0000:09:00.0: Not Found (6)") {
		t.Errorf("a card that is not there: %v", err)
	}
	if _, _, err := l.Links("0000:09:00.0"); err == nil {
		t.Error("links of a card that is not there")
	}
}

func refused(t *testing.T) {
	t.Helper()
	for file, says := range map[string]string{
		"/nowhere/libnvidia-ml.so.1":            "/nowhere/libnvidia-ml.so.1",
		nvmltest.Library(t, "-DWITHOUT_PAIRS"):  "has no nvmlDeviceGetP2PStatus",
		nvmltest.Library(t, "-DWITHOUT_DRIVER"): "nvmlInit: Driver Not Loaded",
	} {
		if _, err := nvml.Load(file); !errors.Is(err, nvml.ErrNotSupported) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", file, err, says)
		}
	}
}
