package doctor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"psrt/rdma/feature"
)

// State of a finding.
const (
	OK      = "ok"
	Warn    = "warn"
	Missing = "missing"
)

// Finding is one line.
type Finding struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Figure string `json:"figure"`
	Mend   string `json:"mend,omitempty"` // the command
}

// machine is a tree of files that looks like one.
type machine struct{ root string }

func (m machine) glob(pattern string) []string {
	found, _ := filepath.Glob(filepath.Join("/", m.root, pattern)) // the patterns are ours
	return found
}

// text is a file's, trimmed; "" where it cannot be read.
func text(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Examine looks at the machine whose files are below root; look finds a program.
func Examine(root string, look func(program string) (string, error)) []Finding {
	m := machine{root}
	var all []Finding
	for _, a := range feature.NewProber(root).Report(feature.All()) {
		all = append(all, tried(a))
	}
	all = append(all, m.ports()...)
	all = append(all, m.hugePages()...)
	all = append(all, m.governor()...)
	all = append(all, m.locality("network card", "sys/class/net/*/device/numa_node")...)
	all = append(all, m.locality("disk", "sys/block/*/device/numa_node")...)
	all = append(all, m.kernel()...)
	all = append(all, m.libraries()...)
	return append(all, launchers(look)...)
}

// kernel is what its settings forbid.
func (m machine) kernel() []Finding {
	ring := Finding{"io_uring", OK, "allowed by the kernel's setting", ""}
	if v := text(filepath.Join("/", m.root, "proc/sys/kernel/io_uring_disabled")); v != "" && v != "0" {
		ring = Finding{ring.Name, Warn, "kernel.io_uring_disabled is " + v, "sysctl kernel.io_uring_disabled=0"}
	}
	bpf := Finding{"eBPF", OK, "the kernel's types are there (root or CAP_BPF is needed, too)", ""}
	if len(m.glob("sys/kernel/btf/vmlinux")) == 0 {
		bpf = Finding{bpf.Name, Missing, "no /sys/kernel/btf/vmlinux; psrt counts by itself", "a kernel with CONFIG_DEBUG_INFO_BTF"}
	}
	return []Finding{ring, bpf}
}

// libraries are those that are loaded where they are there.
func (m machine) libraries() (all []Finding) {
	for _, l := range []struct{ name, file, mend string }{
		{"CUDA driver", "libcuda.so.1", "install the GPU's driver"}, {"NCCL", "libnccl.so.2", "install NVIDIA's libnccl2"},
		{"PMIx", "libpmix.so.2", "apt-get install libpmix2"}, {"libibverbs", "libibverbs.so.1", "apt-get install libibverbs1 ibverbs-providers"},
	} {
		f := Finding{"library " + l.name, Missing, "no " + l.file + " where libraries usually are", l.mend}
		for _, dir := range []string{"usr/lib/*-linux-gnu/", "usr/lib64/", "usr/lib/", "usr/local/lib/", "usr/local/cuda/lib64/"} {
			if found := m.glob(dir + l.file); len(found) > 0 {
				f = Finding{f.Name, OK, found[0], ""}
				break
			}
		}
		all = append(all, f)
	}
	return all
}

// Here examines this machine.
func Here() []Finding { return Examine("", exec.LookPath) }

func tried(a feature.Answer) Finding {
	var no *feature.MissingError
	switch {
	case a.Err == nil:
		return Finding{a.Test.Name, OK, a.Test.Requirement, ""}
	case errors.As(a.Err, &no):
		return Finding{a.Test.Name, Missing, no.Detail, a.Test.Remedy}
	}
	return Finding{a.Test.Name, Warn, a.Err.Error(), ""}
}

// ports are those of RDMA devices, with their GIDs that are set.
func (m machine) ports() (all []Finding) {
	for _, dir := range m.glob("sys/class/infiniband/*/ports/*") {
		device := filepath.Dir(filepath.Dir(dir))
		f := Finding{Name: fmt.Sprintf("RDMA port %s/%s", filepath.Base(device), filepath.Base(dir)), State: OK}
		gids := 0
		for _, g := range m.glob(strings.TrimPrefix(dir, filepath.Join("/", m.root)) + "/gids/*") {
			if strings.Trim(text(g), "0:") != "" {
				gids++
			}
		}
		state := text(filepath.Join(dir, "state"))
		f.Figure = fmt.Sprintf("%s, %s, %d GIDs, NUMA node %s", state, text(filepath.Join(dir, "rate")), gids, text(filepath.Join(device, "device/numa_node")))
		if !strings.Contains(state, "ACTIVE") {
			f.State, f.Mend = Warn, "rdma link; ip link set dev NETDEV up"
		} else if gids == 0 {
			f.State, f.Mend = Warn, "ip addr add ADDRESS dev NETDEV"
		}
		all = append(all, f)
	}
	return all
}

// hugePages are those of each NUMA node.
func (m machine) hugePages() (all []Finding) {
	for _, dir := range m.glob("sys/devices/system/node/node*/hugepages/hugepages-2048kB") {
		node := filepath.Base(filepath.Dir(filepath.Dir(dir)))
		f := Finding{"huge pages of " + node, OK, fmt.Sprintf("%s of 2 MiB, %s free", text(filepath.Join(dir, "nr_hugepages")), text(filepath.Join(dir, "free_hugepages"))), ""}
		if text(filepath.Join(dir, "free_hugepages")) == "0" {
			f.State = Warn
			f.Mend = fmt.Sprintf("echo 1024 > /sys/devices/system/node/%s/hugepages/hugepages-2048kB/nr_hugepages", node)
		}
		all = append(all, f)
	}
	return all
}

// governor is how the CPUs' frequency is chosen, and whether it may be the highest.
func (m machine) governor() []Finding {
	kinds := map[string]int{}
	limited := 0
	cpus := m.glob("sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
	for _, f := range cpus {
		kinds[text(f)]++
		dir := filepath.Dir(f)
		if most := text(filepath.Join(dir, "cpuinfo_max_freq")); most != text(filepath.Join(dir, "scaling_max_freq")) {
			limited++
		}
	}
	if len(cpus) == 0 {
		return []Finding{{"CPU frequency", OK, "the machine does not let it be chosen (a virtual one)", ""}}
	}
	var words []string
	for k, n := range kinds {
		words = append(words, fmt.Sprintf("%d %s", n, k))
	}
	slices.Sort(words)
	f := Finding{"CPU frequency", OK, "governor of CPUs: " + strings.Join(words, ", "), ""}
	switch {
	case kinds["performance"] != len(cpus):
		f.State, f.Mend = Warn, "cpupower frequency-set -g performance"
	case limited > 0:
		f.State, f.Mend = Warn, "cpupower frequency-set --max MAXIMUM"
		f.Figure += fmt.Sprintf("; %d may not run at their highest frequency", limited)
	}
	return []Finding{f}
}

// locality is which NUMA node a device is at.
func (m machine) locality(kind, pattern string) (all []Finding) {
	for _, f := range m.glob(pattern) {
		name := filepath.Base(filepath.Dir(filepath.Dir(f)))
		one := Finding{kind + " " + name, OK, "NUMA node " + text(f), ""}
		if text(f) == "-1" {
			one.Figure = "of no NUMA node that is known"
		}
		all = append(all, one)
	}
	return all
}

func launchers(look func(string) (string, error)) (all []Finding) {
	for _, p := range []struct{ program, mend string }{{"mpirun", "apt-get install openmpi-bin"}, {"srun", "apt-get install slurm-client"}} {
		f := Finding{"launcher " + p.program, Missing, "not in PATH; ranks can be started by hand", p.mend}
		if path, err := look(p.program); err == nil {
			f = Finding{f.Name, OK, path, ""}
		}
		all = append(all, f)
	}
	return all
}
