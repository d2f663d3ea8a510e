package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// disks is what each has to say of its place.
func (x *examiner) disks() (all []Finding) {
	for _, dir := range x.glob("sys/block/*") {
		if !x.exists(x.below(filepath.Join(dir, "device"))) {
			continue // loop, ram, device mapper
		}
		f := Finding{Name: "disk " + filepath.Base(dir), State: OK, Figure: x.node(dir)}
		if rotates(dir) {
			f.Figure += ", rotating: too slow for rows"
			f.State, f.Mend = Warn, "give --ssd a directory on another disk"
		}
		all = append(all, f)
	}
	return all
}

// rotates says whether a disk does. Virtual ones are said to, whatever is below.
func rotates(dir string) bool {
	name := filepath.Base(dir)
	return text(filepath.Join(dir, "queue/rotational")) == "1" && !strings.HasPrefix(name, "vd") && !strings.HasPrefix(name, "xvd")
}

// someSpace is what a directory should have free at least.
const someSpace = 1 << 30

// directories are what is to be written to.
func (x *examiner) directories() (all []group) {
	for _, dir := range x.cfg.Dirs {
		all = append(all, group{name: "directory " + dir, look: func() []Finding { return []Finding{x.directory(dir)} }, asked: true})
	}
	return all
}

func (x *examiner) directory(dir string) Finding {
	f := Finding{Name: "directory " + dir, State: OK, Asked: true}
	at := dir
	for { // it may be made later
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			f.State, f.Figure, f.Mend = Missing, at+" is a file, not a directory", "give another directory"
			return f
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			f.State, f.Figure, f.Mend = Missing, err.Error(), "chmod, or another directory"
			return f
		}
		at = filepath.Dir(at)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(at, &s); err != nil {
		f.State, f.Figure = Warn, fmt.Sprintf("statfs %s: %v", at, err)
		return f
	}
	free := int64(s.Bavail) * int64(s.Bsize)
	kind, device := x.mounted(at)
	f.Figure = fmt.Sprintf("%s free of %s, %s%s", size(free), size(int64(s.Blocks)*int64(s.Bsize)), kind, device)
	if at != dir {
		f.Figure += fmt.Sprintf(" (%s is to be made in %s)", dir, at)
	}
	need := x.cfg.Need
	if need == 0 {
		need = someSpace
	}
	writable, direct := try(at)
	switch {
	case writable != nil && errors.Is(writable, unix.ENOSPC), s.Files > 0 && s.Ffree == 0:
		f.State, f.Mend = Missing, "the disk is full: remove something below "+at+", or give another directory"
	case writable != nil:
		f.State, f.Figure, f.Mend = Missing, fmt.Sprintf("this user (uid %d) cannot write there: %v", os.Geteuid(), writable), fmt.Sprintf("chown %d %s, or give another directory", os.Geteuid(), at)
	case free < need && x.cfg.Need > 0:
		f.State, f.Mend = Missing, fmt.Sprintf("%s are needed: remove something below %s, or give another directory", size(need), at)
	case free < need:
		f.State, f.Mend = Warn, "the disk is nearly full: remove something below "+at+", or give another directory"
	case direct != nil:
		f.State, f.Figure, f.Mend = Warn, f.Figure+"; no O_DIRECT: rows go through the page cache", "a directory on ext4 or xfs"
	default:
		f.Figure += ", O_DIRECT"
	}
	return f
}

// try makes a file without a name, which nobody sees and nothing is left of.
func try(dir string) (writable, direct error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		return unix.Access(dir, unix.W_OK|unix.X_OK), nil // this file system has no such files
	}
	if err != nil {
		return err, nil
	}
	defer unix.Close(fd)
	if _, err := unix.Pwrite(fd, make([]byte, 64<<10), 0); err != nil {
		return err, nil
	}
	again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.EINVAL) {
			return nil, err
		}
		return nil, nil // no /proc: it cannot be told
	}
	return nil, unix.Close(again)
}

// mounted says on what file system and disk a directory is. A line of mountinfo:
//
//	35 31 259:1 /root /mount/point rw - ext4 /dev/nvme0n1p1 rw
func (x *examiner) mounted(dir string) (kind, device string) {
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		path = dir
	}
	if path, err = filepath.Abs(path); err != nil {
		return "an unknown file system", ""
	}
	best, number := -1, ""
	for line := range strings.Lines(x.text("proc/self/mountinfo")) {
		before, after, ok := strings.Cut(line, " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if !ok || len(b) < 5 || len(a) < 2 {
			continue
		}
		point := strings.ReplaceAll(b[4], `\040`, " ")
		if len(point) >= best && (path == point || point == "/" || strings.HasPrefix(path, point+"/")) {
			best, kind, device, number = len(point), a[0], a[1], b[2]
		}
	}
	if kind == "" {
		return "an unknown file system", ""
	}
	if kind == "tmpfs" || kind == "ramfs" {
		return kind, ", which is memory"
	}
	device = " on " + device
	// A partition's folder is in its disk's.
	if disk, err := filepath.EvalSymlinks(x.path("sys/dev/block/" + number)); err == nil {
		for _, d := range []string{disk, filepath.Dir(disk)} {
			if rotates(d) {
				device += " (rotating)"
			}
			if n := x.node(d); strings.HasPrefix(n, "NUMA") {
				device += ", " + n
				break
			}
		}
	}
	return kind, device
}
