package doctor

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	pciRoot   = regexp.MustCompile(`^pci[0-9a-f]{4,}:[0-9a-f]{2}$`)
	pciDevice = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
)

// pciPath is a device's way from its root complex, nil where it is not known: the root,
// bridges, the device.
func pciPath(dir string) (path []string) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	for _, part := range strings.Split(real, "/") {
		if pciRoot.MatchString(part) {
			path = []string{part}
		} else if len(path) > 0 && pciDevice.MatchString(part) {
			path = append(path, part)
		}
	}
	return path
}

// Ways between two devices, the shortest first.
const (
	wayUnknown = iota
	waySwitch
	wayRoot
	wayNode
	wayFar
)

var wayNames = [...]string{wayUnknown: "on a way that is not known", waySwitch: "behind one PCIe switch", wayRoot: "at one PCIe root",
	wayNode: "of one NUMA node", wayFar: "of two NUMA nodes"}

// way is the one between the devices of two sysfs folders.
func way(a, b string) int {
	p, q := pciPath(a), pciPath(b)
	common := 0
	for common < min(len(p), len(q)) && p[common] == q[common] {
		common++
	}
	m, n := text(filepath.Join(a, "numa_node")), text(filepath.Join(b, "numa_node"))
	switch {
	case common > 1:
		return waySwitch
	case common == 1:
		return wayRoot
	case m == "" || n == "" || m == "-1" || n == "-1":
		return wayUnknown
	case m == n:
		return wayNode
	}
	return wayFar
}

// pciLink is a device's link as it is now, and as wide as it may be, "" where sysfs does not say.
// The speed falls when a card is idle, the width does not.
func pciLink(dir string) (figure string, narrow bool) {
	speed, width, most := text(filepath.Join(dir, "max_link_speed")), text(filepath.Join(dir, "current_link_width")), text(filepath.Join(dir, "max_link_width"))
	if width == "" || width == "0" {
		return "", false
	}
	figure = "PCIe x" + width
	if gigabits, is := strings.CutSuffix(speed, " PCIe"); is {
		figure += " of up to " + gigabits
	}
	if narrow = most != "" && most != width; narrow {
		figure += fmt.Sprintf(", though it could be x%s", most)
	}
	return figure, narrow
}
