package feature

import (
	"fmt"
	"os"
	"strconv"
	"strings"
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
