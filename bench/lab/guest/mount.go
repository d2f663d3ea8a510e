package guest

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// RootTag is the 9p device's with the host's root.
const RootTag = "lab-root"

type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mounting %s on %s as %s: %w", m.source, m.target, m.kind, err)
	}
	return nil
}

func mountAll(mounts []mount) error {
	for _, m := range mounts {
		if err := m.do(); err != nil {
			return err
		}
	}
	return nil
}

// early are those that loading modules needs.
var early = []mount{
	{"proc", "/proc", "proc", 0, ""},
	{"sysfs", "/sys", "sysfs", 0, ""},
	{"devtmpfs", "/dev", "devtmpfs", 0, ""},
}

// root is the host's, over which everything written goes into memory. loose:
// the host's programs do not change while a machine runs that lives for minutes.
var root = []mount{
	{RootTag, "/host", "9p", unix.MS_RDONLY | unix.MS_NOATIME, "trans=virtio,version=9p2000.L,msize=512000,cache=loose"},
	{"tmpfs", "/layer", "tmpfs", 0, "mode=755"},
}

// late are what programs expect, in the new root.
var late = []mount{
	{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
	{"tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, ""},
	{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=620,ptmxmode=666"},
	{"cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""},
	{"bpf", "/sys/fs/bpf", "bpf", 0, ""},
	{"tracefs", "/sys/kernel/tracing", "tracefs", 0, ""},
}

// enterRoot makes the host's root, with memory over it, the root of this and
// every later process.
func enterRoot() error {
	if err := mountAll(root); err != nil {
		return err
	}
	for _, dir := range []string{"/layer/upper", "/layer/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	over := mount{"overlay", "/new", "overlay", 0, "lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work"}
	if err := over.do(); err != nil {
		return err
	}
	for _, m := range early {
		if err := unix.Mount(m.target, filepath.Join("/new", m.target), "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("moving %s: %w", m.target, err)
		}
	}
	if err := os.Chdir("/new"); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("moving the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("entering the root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return mountAll(late)
}
