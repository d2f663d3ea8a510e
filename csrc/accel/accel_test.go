//go:build cgo

package accel_test

import (
	"errors"
	"strings"
	"testing"

	"psrt/csrc/accel"
	"psrt/csrc/accel/acceltest"
)

// TestUnfit: what is no table of functions, or not a whole one, says what it lacks.
func TestUnfit(t *testing.T) {
	for says, file := range map[string]string{
		"cannot open shared object": "/nowhere/twin.so",
		"version 2":                 acceltest.Build(t, "-DABI=2"),
		"must be set":               acceltest.Build(t, "-DRUN=NULL", "-Wno-unused-function"),
	} {
		if _, err := accel.Load(file); !errors.Is(err, accel.ErrNotSupported) || !strings.Contains(err.Error(), says) || strings.Count(err.Error(), file) != 1 {
			t.Errorf("want %q: %v", says, err)
		}
	}
}

// TestErrors: what a library refuses comes with its words.
func TestErrors(t *testing.T) {
	l, err := accel.Load(acceltest.Build(t))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := l.Devices(); n != 2 || err != nil || l.Name != "host twin in a library" {
		t.Errorf("%q shows %d devices, %v", l.Name, n, err)
	}
	if _, err := l.Open(2); err == nil || !strings.Contains(err.Error(), "open of device 2") {
		t.Errorf("a third of two devices: %v", err)
	}
	d, err := l.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Alloc(1 << 40); !accel.IsOutOfMemory(err) || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("a TiB: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
