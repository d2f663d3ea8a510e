package feature

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxNode bounds what is believed of a node list; Linux' own limit is 1024.
const maxNode = 1023

// Nodes lists the NUMA nodes that have memory, ascending. A kernel without
// NUMA has none; that is node 0 alone.
func (r Root) Nodes() ([]int, error) {
	const dir = "sys/devices/system/node/"
	s, err := r.read(dir + "has_memory")
	if os.IsNotExist(err) {
		s, err = r.read(dir + "online")
	}
	if os.IsNotExist(err) {
		return []int{0}, nil
	}
	if err != nil {
		return nil, err
	}
	nodes, err := ParseList(s, maxNode)
	if err != nil {
		return nil, fmt.Errorf("feature: %s: %w", r.path(dir), err)
	}
	return nodes, nil
}

// NodeFreeBytes is the free memory of a node.
func (r Root) NodeFreeBytes(node int) (int64, error) {
	name := fmt.Sprintf("sys/devices/system/node/node%d/meminfo", node)
	s, err := r.read(name)
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(s, "\n") {
		// "Node 0 MemFree:  123 kB"
		f := strings.Fields(line)
		if len(f) >= 4 && f[2] == "MemFree:" {
			return parseKB(f[3])
		}
	}
	return 0, fmt.Errorf("feature: no MemFree in %s", r.path(name))
}

// maxCPU bounds a CPU's number: what a unix.CPUSet holds.
const maxCPU = 1023

// NodeCPUs are the CPUs of a node, ascending; a node of memory alone has none.
func (r Root) NodeCPUs(node int) ([]int, error) {
	name := fmt.Sprintf("sys/devices/system/node/node%d/cpulist", node)
	s, err := r.read(name)
	if err != nil {
		return nil, fmt.Errorf("feature: CPUs of NUMA node %d: %w", node, err)
	}
	cpus, err := ParseList(s, maxCPU)
	if err != nil {
		return nil, fmt.Errorf("feature: CPUs of NUMA node %d: %s: %w", node, r.path(name), err)
	}
	return cpus, nil
}

// FileNode is the node that the disk under a file is attached to; -1: it has none, or
// the file lies on no disk of this machine (a network, memory, a layer over others).
func (r Root) FileNode(path string) (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return -1, fmt.Errorf("feature: %s: %w", path, err)
	}
	return r.blockNode(unix.Major(st.Dev), unix.Minor(st.Dev))
}

// blockNode looks for the node in a block device's folder and in those above it, of
// which the bus's device has it.
func (r Root) blockNode(major, minor uint32) (int, error) {
	dir, err := filepath.EvalSymlinks(r.path(fmt.Sprintf("sys/dev/block/%d:%d", major, minor)))
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("feature: block device %d:%d: %w", major, minor, err)
	}
	for ; filepath.Base(dir) != "sys" && dir != "/"; dir = filepath.Dir(dir) {
		for _, name := range []string{"numa_node", "device/numa_node"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				continue
			}
			node, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil || node < -1 || node > maxNode {
				return -1, fmt.Errorf("feature: %s holds %.40q, want a NUMA node", filepath.Join(dir, name), text)
			}
			return node, nil
		}
	}
	return -1, nil
}

// ParseList reads the kernel's list format ("0-3,8,10-11"); numbers above
// limit are refused.
func ParseList(s string, limit int) ([]int, error) {
	var list []int
	if s == "" {
		return nil, nil
	}
	for _, part := range strings.Split(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(last)
		}
		if err != nil || a < 0 || b < a || b > limit {
			return nil, fmt.Errorf("%.40q is not a list of numbers up to %d like 0-3,8", s, limit)
		}
		for n := a; n <= b; n++ {
			list = append(list, n)
		}
		if len(list) > limit+1 {
			return nil, fmt.Errorf("%.40q names numbers twice", s)
		}
	}
	return list, nil
}

// FormatList is what ParseList reads; list is ascending.
func FormatList(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		last := i
		for last+1 < len(list) && list[last+1] == list[last]+1 {
			last++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(list[i]))
		if last > i {
			fmt.Fprintf(&b, "-%d", list[last])
		}
		i = last + 1
	}
	return b.String()
}
