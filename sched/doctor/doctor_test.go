package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/csrc/nccl"
)

func TestExamine(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"sys/devices/system/node/has_memory":                                      "0",
		"sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages":   "8",
		"sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages": "3",
		"sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages":   "0",
		"sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages": "0",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":                    "performance",
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":                    "powersave",
		"sys/class/infiniband/mlx5_0/ports/1/state":                               "4: ACTIVE",
		"sys/class/infiniband/mlx5_0/ports/1/rate":                                "100 Gb/sec (4X EDR)",
		"sys/class/infiniband/mlx5_0/ports/1/gids/0":                              "fe80:0000:0000:0000:0000:0000:0000:0001",
		"sys/class/infiniband/mlx5_0/ports/1/gids/1":                              "0000:0000:0000:0000:0000:0000:0000:0000",
		"sys/class/infiniband/mlx5_0/device/numa_node":                            "1",
		"sys/class/infiniband/mlx5_1/ports/1/state":                               "1: DOWN",
		"proc/sys/kernel/io_uring_disabled":                                       "2",
		"sys/class/net/eth0/device/numa_node":                                     "1",
		"sys/block/nvme0n1/device/numa_node":                                      "-1",
	} {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]Finding{}
	for _, f := range Examine(t.Context(), Config{Root: root, GID: -1, Look: func(p string) (string, error) {
		if p == "srun" {
			return "/usr/bin/srun", nil
		}
		return "", errors.New("not there")
	}}) {
		found[f.Name] = f
		if f.Figure == "" || f.State != OK && f.State != Warn && f.State != Missing {
			t.Errorf("%+v", f)
		}
	}
	for name, want := range map[string]struct{ Name, State, Figure, Mend string }{
		"RDMA port mlx5_0/1":  {"", OK, "4: ACTIVE, 100 Gb/sec (4X EDR), 1 GIDs, NUMA node 1", ""},
		"RDMA port mlx5_1/1":  {"", Warn, "1: DOWN, , 0 GIDs, of no NUMA node that is known", "rdma link; ip link set dev NETDEV up"},
		"huge pages of node0": {"", OK, "8 of 2 MiB, 3 free", ""},
		"huge pages of node1": {"", Warn, "0 of 2 MiB, 0 free", "echo 1024 > /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"},
		"CPU frequency":       {"", Warn, "governor of CPUs: 1 performance, 1 powersave", "cpupower frequency-set -g performance"},
		"network card eth0":   {"", OK, "NUMA node 1", ""},
		"disk nvme0n1":        {"", OK, "of no NUMA node that is known", ""},
		"io_uring":            {"", Warn, "kernel.io_uring_disabled is 2: rows on disks are read by threads", "sysctl kernel.io_uring_disabled=0"},
		"library NCCL":        {"", Missing, "no libnccl.so.2 where libraries usually are", nccl.Remedy},
		"launcher srun":       {"", OK, "/usr/bin/srun", ""},
		"launcher mpirun":     {"", Missing, "not in PATH; ranks can be started by hand", "apt-get install openmpi-bin"},
	} {
		want.Name = name
		f := found[name]
		if f.State != want.State || f.Figure != want.Figure || f.Mend != want.Mend {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
}

// What does not come back is named by itself, with what is known: for how long, and how
// busy the machine is.
func TestWhatDoesNotComeBack(t *testing.T) {
	root, hangs, over := t.TempDir(), t.TempDir(), make(chan struct{})
	fifo := filepath.Join(hangs, "libnccl.so.2")
	mkfifo(t, fifo)
	defer close(over)
	defer func() { // who reads it goes on
		if f, err := os.OpenFile(fifo, os.O_RDWR, 0); err == nil {
			t.Cleanup(func() { f.Close() })
		}
	}()
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for load, mend := range map[string]string{"70000.12 60.00 50.00 9/999 7": "less busy", "0.01 0.00 0.00 1/99 7": "dmesg; mount", "": "dmesg; mount"} {
		if err := os.WriteFile(filepath.Join(root, "proc/loadavg"), []byte(load), 0o644); err != nil {
			t.Fatal(err)
		}
		found := Examine(t.Context(), Config{Root: root, GID: -1, Libraries: []string{hangs}, Within: 50 * time.Millisecond,
			Look: func(string) (string, error) { <-over; return "", errors.New("not there") }})
		for _, name := range []string{"library NCCL", "launchers"} {
			i := slices.IndexFunc(found, func(f Finding) bool { return f.Name == name })
			if i < 0 {
				t.Fatalf("nothing is said of %s: %+v", name, found)
			}
			f := found[i]
			first, _, _ := strings.Cut(load, " ")
			if f.State != Warn || !strings.Contains(f.Figure, "has not ended after 50ms") || !strings.Contains(f.Figure, first) || strings.Contains(f.Figure, "load") != (load != "") || !strings.Contains(f.Mend, mend) {
				t.Errorf("with %q: %+v", load, f)
			}
		}
	}
}
