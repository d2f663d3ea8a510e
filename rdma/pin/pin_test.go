package pin

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"psrt/rdma/feature"
)

// TestNode: a thread is kept on the CPUs that the tree names, and on none where there
// are none.
func TestNode(t *testing.T) {
	root := t.TempDir()
	for node, cpus := range map[string]string{"node3": "0\n", "node5": "\n"} {
		dir := filepath.Join(root, "sys/devices/system/node", node)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cpulist"), []byte(cpus), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	go func() { // its thread is locked and ends with it
		if err := Node(feature.Root(root), 3); err != nil {
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
	for _, node := range []int{4, 5} {
		if err := Node(feature.Root(root), node); err == nil {
			t.Errorf("node %d, which has no CPU, was accepted", node)
		}
	}
}
