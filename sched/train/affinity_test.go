package train

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"psrt/rdma/feature"
)

// machine is a tree of two NUMA nodes, the disk under a file of which is attached to one.
func machine(t *testing.T, diskNode string) (root feature.Root, data string) {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("sys/devices/system/node/node0/cpulist", "0-1,4")
	put("sys/devices/system/node/node1/cpulist", "2-3")
	put("rows.libffm", "1 0:1:1")
	data = filepath.Join(dir, "rows.libffm")
	var st unix.Stat_t
	if err := unix.Stat(data, &st); err != nil {
		t.Fatal(err)
	}
	const bus = "sys/devices/pci0000:00/0000:00:05.0"
	put(bus+"/numa_node", diskNode)
	put(bus+"/nvme/nvme0/nvme0n1/nvme0n1p1/partition", "1")
	link := filepath.Join(dir, fmt.Sprintf("sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, bus, "nvme/nvme0/nvme0n1/nvme0n1p1"), link); err != nil {
		t.Fatal(err)
	}
	return feature.Root(dir), data
}

// TestAffinity: whoever reads is kept at the disk, all else at the worker's node, and
// what cannot be done is told.
func TestAffinity(t *testing.T) {
	for _, c := range []struct {
		disk string
		read []int
	}{{"0", []int{0, 1, 4}}, {"1", []int{2, 3}}, {"-1", []int{2, 3}}} {
		root, data := machine(t, c.disk)
		a := newAffinity(root, 1, []string{data, filepath.Join(filepath.Dir(data), "*.libffm")})
		var held [][]int
		a.held = func(cpus []int) error { held = append(held, cpus); return nil }
		a.reads(true)
		a.reads(false)
		a.hold(stageCompute)
		if want := [][]int{c.read, {2, 3}, {2, 3}}; !slices.EqualFunc(held, want, slices.Equal) {
			t.Errorf("disk at %s: held on %v, want %v", c.disk, held, want)
		}
		if r := a.report(); r.Compute != "2-3" || r.Read != feature.FormatList(c.read) || r.NotHeld != "" {
			t.Errorf("disk at %s: %+v", c.disk, r)
		}
		a.held = func([]int) error { return unix.EINVAL }
		a.hold(stageParse)
		if r := a.report(); !strings.Contains(r.NotHeld, "invalid") {
			t.Errorf("not held: %+v", r)
		}
	}
	root, data := machine(t, "broken")
	if a := newAffinity(root, 0, []string{data}); !slices.Equal(a.cpus[stageRead], []int{0, 1, 4}) {
		t.Errorf("a disk that does not say where it is: read on %v", a.cpus[stageRead])
	}
	a := newAffinity(root, -1, []string{data})
	if a.hold(stageRead); a != nil || a.report() != nil {
		t.Error("threads of a worker without a node are kept somewhere")
	}
}
