//go:build cgo

package nccl

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/csrc/nccl/nccltest"
)

// Libraries that are none, or too old, say what they lack.
func TestLoadFails(t *testing.T) {
	driver := cudatest.Library(t)
	text := filepath.Join(t.TempDir(), "libnccl.so.2")
	if err := os.WriteFile(text, bytes.Repeat([]byte("no library "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "none.so"): "or have PSRT_NCCL_LIBRARY name a file, such as nvidia/nccl/lib/libnccl.so.2",
		text:                                  "invalid ELF header",
		driver:                                "has no ncclGetVersion",
		nccltest.Build(t, "-DWITHOUT_P2P"):    "has no ncclSend, which NCCL 2.7 has",
		nccltest.Build(t, "-DVERSION=2604"):   "version number 2604: want NCCL 2.7.8",
		nccltest.Build(t, "-DVERSION=30100"):  "version number 30100",
		nccltest.Build(t, "-DVERSION=0"):      "version number 0",
		nccltest.Build(t, "-DVERSION=19000"):  "version number 19000",
	} {
		if _, err := Load(path); !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	t.Setenv(Variable, text)
	if _, err := Load(""); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s is not looked at: %v", Variable, err)
	}
}

func TestVersionText(t *testing.T) {
	for code, want := range map[int]string{2708: "2.7.8", 2804: "2.8.4", 20903: "2.9.3", 21405: "2.14.5", 22703: "2.27.3"} {
		if got := VersionText(code); got != want {
			t.Errorf("%d is %s, want %s", code, got, want)
		}
	}
}

// One rank alone, in forms of several versions: what is missing is said or done without.
func TestOneRank(t *testing.T) {
	driver := cudatest.Library(t)
	d, err := cuda.Load(driver)
	if err != nil {
		t.Fatal(err)
	}
	for name, defines := range map[string][]string{"new": nil, "old": {"-DVERSION=2708", "-DWITHOUT_CONFIG", "-DWITHOUT_REGISTER"}} {
		t.Run(name, func(t *testing.T) {
			lib, err := Load(nccltest.Build(t, defines...))
			if err != nil {
				t.Fatal(err)
			}
			if lib.Returns() != (defines == nil) || lib.Registers() != (defines == nil) {
				t.Errorf("returns: %v, registers: %v", lib.Returns(), lib.Registers())
			}
			dev, err := d.Open(0)
			if err != nil {
				t.Fatal(err)
			}
			if err := dev.In(func() error { return oneRank(dev, lib) }); err != nil {
				t.Error(err)
			}
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// settled waits for a communicator.
func settled(c *Comm) error {
	for {
		if busy, err := c.State(); err != nil || !busy {
			return err
		}
	}
}
