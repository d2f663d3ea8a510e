package pick

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Device is an RDMA device as the kernel describes it.
type Device struct {
	Name string
	Type string // as the kernel words it: "CA" of InfiniBand and RoCE, "RNIC" of iWARP; "" unknown
	Node int    // NUMA node, -1 unknown
	PCI  string // the bus path, such as "pci0000:00/0000:00:03.0"; "" where it has none
	// Netdevs are the network interfaces behind its ports' GIDs, where Read was
	// asked for them.
	Netdevs []string
	Ports   []Port
}

// Port of a device, numbered from 1.
type Port struct {
	Number int
	State  string // "ACTIVE", "DOWN", ...
	Link   string // "Ethernet", "InfiniBand"
	Rate   string // as the kernel words it: "100 Gb/sec (4X EDR)"
}

func (p Port) active() bool { return p.State == "ACTIVE" }

const class = "sys/class/infiniband"

// Read lists the devices under root, "" for this machine, by name. A machine
// without any gives none and no error. Only who has names to look for wants the
// interfaces: they are a file for each entry of a port's table of GIDs, 1024 with
// soft-RoCE.
func Read(root string, interfaces bool) ([]Device, error) {
	dir := filepath.Join("/", root, class)
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pick: list RDMA devices: %w", err)
	}
	var list []Device
	for _, e := range entries {
		d, err := device(filepath.Join(dir, e.Name()), interfaces)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

func device(dir string, interfaces bool) (Device, error) {
	d := Device{Name: filepath.Base(dir), Node: -1}
	_, d.Type, _ = strings.Cut(text(dir, "node_type"), ": ")
	if n, err := strconv.Atoi(text(dir, "device/numa_node")); err == nil && n >= 0 {
		d.Node = n
	}
	if path, err := filepath.EvalSymlinks(filepath.Join(dir, "device")); err == nil {
		if i := strings.Index(path, "/devices/pci"); i >= 0 {
			d.PCI = path[i+len("/devices/"):]
		}
	}
	ports, err := os.ReadDir(filepath.Join(dir, "ports"))
	if err != nil {
		return d, fmt.Errorf("pick: list the ports of %s: %w", d.Name, err)
	}
	for _, p := range ports {
		number, err := strconv.Atoi(p.Name())
		if err != nil {
			return d, fmt.Errorf("pick: %s has a port named %q, want a number", d.Name, p.Name())
		}
		at := filepath.Join(dir, "ports", p.Name())
		_, state, _ := strings.Cut(text(at, "state"), ": ")
		d.Ports = append(d.Ports, Port{Number: number, State: cmp.Or(state, "unknown"), Link: text(at, "link_layer"), Rate: text(at, "rate")})
		if interfaces {
			d.Netdevs = append(d.Netdevs, netdevs(at)...)
		}
	}
	slices.SortFunc(d.Ports, func(a, b Port) int { return a.Number - b.Number })
	slices.Sort(d.Netdevs)
	d.Netdevs = slices.Compact(d.Netdevs)
	return d, nil
}

// netdevs behind a port's GIDs. Empty entries of the table cannot be read.
func netdevs(port string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(port, "gid_attrs/ndevs"))
	for _, e := range entries {
		if name := text(port, "gid_attrs/ndevs/"+e.Name()); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// text of a small file without white space around it, "" where it cannot be
// read. Not by package os, which makes twice the system calls: a port's table
// has up to 1024 files.
func text(dir, name string) string {
	fd, err := unix.Open(filepath.Join(dir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	var b [4096]byte // what sysfs gives at most
	n, err := unix.Read(fd, b[:])
	_ = unix.Close(fd)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b[:n]))
}

// Distances between NUMA nodes as the firmware tells them, row by row; nil
// where the kernel has no nodes.
func Distances(root string) map[int][]int {
	dirs, _ := filepath.Glob(filepath.Join("/", root, "sys/devices/system/node/node[0-9]*"))
	rows := map[int][]int{}
	for _, dir := range dirs {
		node, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(text(dir, "distance")) {
			d, _ := strconv.Atoi(word)
			rows[node] = append(rows[node], d)
		}
	}
	return rows
}
