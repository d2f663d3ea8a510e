package server

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPin(t *testing.T) {
	sysfs := t.TempDir()
	dir := filepath.Join(sysfs, "devices/system/node/node3")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cpulist"), []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { // its thread is locked and ends with it
		if err := pin(3, sysfs); err != nil {
			done <- err
			return
		}
		var set unix.CPUSet
		err := unix.SchedGetaffinity(0, &set)
		if err == nil && (set.Count() != 1 || !set.IsSet(0)) {
			t.Errorf("the thread may run on %d CPUs", set.Count())
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := pin(4, sysfs); err == nil {
		t.Error("a node that does not exist was accepted")
	}
}
