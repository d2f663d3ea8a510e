package blk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// align finds the unit of I/O: what the kernel says (statx, Linux 6.1), else
// what it takes.
func (d *folder) align(cfg *Config) {
	d.block, d.direct = 4096, true
	var stx unix.Statx_t
	err := unix.Statx(int(d.lock.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &stx)
	switch {
	case cfg.Buffered:
		d.direct, d.why = false, "O_DIRECT is switched off"
	case err == nil && stx.Mask&unix.STATX_DIOALIGN != 0:
		switch unit := max(stx.Dio_offset_align, stx.Dio_mem_align); {
		case stx.Dio_offset_align == 0:
			d.direct, d.why = false, "the file system takes no O_DIRECT"
		case unit <= 512:
			d.block = 512
		case unit > 4096:
			d.direct, d.why = false, fmt.Sprintf("O_DIRECT wants blocks of %d bytes", unit)
		}
	default:
		d.try()
	}
	if !d.direct {
		d.block = 512
	}
	if cfg.Block > d.block {
		d.block = cfg.Block
	}
}

// try asks the disk itself, with a file that has no name.
func (d *folder) try() {
	fd, err := unix.Openat(int(d.dir.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC|unix.O_DIRECT, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOENT) {
		fd, err = d.scratch()
	}
	if err != nil {
		d.direct, d.why = false, fmt.Sprintf("O_DIRECT refused (%v)", err)
		return
	}
	defer func() { _ = unix.Close(fd) }()
	var p pool
	defer func() { _ = p.close() }()
	b, err := p.alloc(4096)
	if err != nil {
		d.direct, d.why = false, err.Error()
		return
	}
	for _, unit := range []int{512, 4096} {
		if _, err = unix.Pwrite(fd, b[:unit], int64(unit)); err == nil {
			_, err = unix.Pread(fd, b[:unit], int64(unit))
		}
		if err == nil {
			d.block = unit
			return
		}
	}
	d.direct, d.why = false, fmt.Sprintf("O_DIRECT fails (%v)", err)
}

// scratch is a file that loses its name at once, where the file system has no
// O_TMPFILE.
func (d *folder) scratch() (int, error) {
	const name = ".scratch"
	dir := int(d.dir.Fd())
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC|unix.O_DIRECT, 0o600)
	_ = unix.Unlinkat(dir, name, 0)
	return fd, err
}
