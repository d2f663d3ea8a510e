package feature

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// unlimited is what is taken as no limit: version 1 writes the largest
// multiple of a page for it.
const unlimited = int64(1) << 60

// hierarchy is one mounted cgroup tree that may limit memory.
type hierarchy struct {
	version    int
	mountPoint string
	mountRoot  string // the cgroup shown at the mount point
	group      string // the process's own cgroup
}

// cgroupLimits walks every memory hierarchy from the process's own group to
// the top. Unreadable files are no limit: inside containers the upper groups
// are not visible.
func (r Root) cgroupLimits() ([]Limit, error) {
	hs, err := r.hierarchies()
	if err != nil {
		return nil, err
	}
	var limits []Limit
	for _, h := range hs {
		for rel := h.relative(); ; rel = path.Dir(rel) {
			l, limited, err := r.groupLimit(h, rel)
			if err != nil {
				return nil, err
			}
			if limited {
				limits = append(limits, l)
			}
			if rel == "/" {
				break
			}
		}
	}
	return limits, nil
}

// relative is the group's folder below the mount point. A container that sees
// the host's name of its group but mounts only its own subtree has it at the
// top.
func (h hierarchy) relative() string {
	group := path.Clean("/" + h.group)
	if h.mountRoot != "/" {
		rest, inside := strings.CutPrefix(group, h.mountRoot)
		if !inside || (rest != "" && rest[0] != '/') {
			return "/"
		}
		group = path.Clean("/" + rest)
	}
	return group
}

func (r Root) groupLimit(h hierarchy, rel string) (l Limit, limited bool, err error) {
	dir := path.Join(h.mountPoint, rel)
	limitFile, usageFile, cachePrefix := "memory.max", "memory.current", ""
	if h.version == 1 {
		limitFile, usageFile, cachePrefix = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
	}
	text, err := r.read(path.Join(dir, limitFile))
	if err != nil || text == "max" {
		return Limit{}, false, ignoreUnreadable(err)
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return Limit{}, false, fmt.Errorf("feature: %s/%s holds %.40q, want a number or max", dir, limitFile, text)
	}
	if limit >= unlimited {
		return Limit{}, false, nil
	}
	used, err := r.readInt(path.Join(dir, usageFile))
	if err != nil {
		return Limit{}, false, ignoreUnreadable(err)
	}
	// File pages on the LRU lists are given back under pressure.
	used -= r.cachedBytes(path.Join(dir, "memory.stat"), cachePrefix)
	return Limit{
		Bytes:  max(limit-max(used, 0), 0),
		Source: fmt.Sprintf("%s = %d of cgroup %s", limitFile, limit, path.Join(h.mountRoot, rel)),
		Remedy: "ask for less or raise the group's limit (systemd: MemoryMax=, Docker: --memory, SLURM: --mem)",
	}, true, nil
}

func ignoreUnreadable(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

func (r Root) cachedBytes(statFile, prefix string) int64 {
	s, err := r.read(statFile)
	if err != nil {
		return 0
	}
	var sum int64
	for _, line := range strings.Split(s, "\n") {
		f := strings.Fields(line)
		if len(f) == 2 && (f[0] == prefix+"inactive_file" || f[0] == prefix+"active_file") {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n > 0 {
				sum += n
			}
		}
	}
	return sum
}

// hierarchies finds the memory hierarchies of both versions and the process's
// group in each.
func (r Root) hierarchies() ([]hierarchy, error) {
	groups, err := r.read("proc/self/cgroup")
	if err != nil {
		return nil, ignoreUnreadable(err)
	}
	mounts, err := r.read("proc/self/mountinfo")
	if err != nil {
		return nil, ignoreUnreadable(err)
	}
	var hs []hierarchy
	for _, line := range strings.Split(groups, "\n") {
		// "4:memory:/a/b" (version 1) or "0::/a/b" (version 2)
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		h := hierarchy{group: f[2]}
		switch {
		case f[0] == "0" && f[1] == "":
			h.version = 2
		case hasWord(f[1], "memory"):
			h.version = 1
		default:
			continue
		}
		if h.mount(mounts) {
			hs = append(hs, h)
		}
	}
	return hs, nil
}

// mount finds where h is mounted. The format of a line of mountinfo:
//
//	35 31 0:32 /root /mount/point rw - cgroup cgroup rw,memory
func (h *hierarchy) mount(mountinfo string) bool {
	for _, line := range strings.Split(mountinfo, "\n") {
		before, after, ok := strings.Cut(line, " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if !ok || len(b) < 5 || len(a) < 3 {
			continue
		}
		if h.version == 2 && a[0] == "cgroup2" || h.version == 1 && a[0] == "cgroup" && hasWord(a[2], "memory") {
			h.mountRoot, h.mountPoint = path.Clean("/"+b[3]), b[4]
			return true
		}
	}
	return false
}

func hasWord(list, word string) bool {
	for _, w := range strings.Split(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
