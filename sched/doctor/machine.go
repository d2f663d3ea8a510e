package doctor

import (
	"os"
	"path/filepath"
	"strings"
)

// machine is a tree of files that looks like one.
type machine struct{ root string }

func (m machine) path(name string) string { return filepath.Join("/", m.root, name) }

func (m machine) glob(pattern string) []string {
	found, _ := filepath.Glob(m.path(pattern)) // the patterns are ours
	return found
}

// below is a found path without the root.
func (m machine) below(path string) string {
	return strings.TrimPrefix(path, strings.TrimSuffix(m.path(""), "/"))
}

// here: it is this machine, on which things can be tried.
func (m machine) here() bool { return m.root == "" || m.root == "/" }

// text is a file's, trimmed; "" where it cannot be read.
func text(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (m machine) text(name string) string { return text(m.path(name)) }

// node says which NUMA node a device is at, whose sysfs folder this is.
func (m machine) node(dir string) string {
	for range 4 { // a disk's is its controller's, some levels above
		if n := text(filepath.Join(dir, "numa_node")); n != "" {
			if n == "-1" {
				return "of no NUMA node that is known"
			}
			return "NUMA node " + n
		}
		dir = filepath.Join(dir, "device")
	}
	return "of no NUMA node that is known"
}

func splitPath(s string) (dirs []string) {
	for _, d := range filepath.SplitList(s) {
		if d != "" {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// exists says whether there is a file.
func (m machine) exists(name string) bool {
	_, err := os.Stat(m.path(name))
	return err == nil
}
