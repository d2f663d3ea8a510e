package blk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// folder is a directory and the files open in it: what the devices of the
// operating system have in common.
type folder struct {
	path   string
	dir    *os.File
	lock   *os.File
	block  int
	direct bool
	why    string // it is less than it could be

	files []openFile // by number; fd -1 where there is none
	made  func(file int, fd int) error
	gone  func(file int) error
}

type openFile struct {
	fd     int
	name   string
	size   int64
	flight int // requests
}

func openFolder(path string, cfg *Config) (*folder, error) {
	d := &folder{path: filepath.Clean(path)}
	var err error
	if d.lock, err = lock(path); err != nil {
		return nil, err
	}
	if d.dir, err = os.Open(path); err != nil {
		return nil, errors.Join(fmt.Errorf("blk: %w", err), d.close())
	}
	d.align(cfg)
	return d, nil
}

// full names a file in messages.
func (d *folder) full(name string) string { return filepath.Join(d.path, name) }

// fileFlags opens for aligned I/O past the page cache where that is possible.
func (d *folder) fileFlags() int {
	flags := unix.O_RDWR | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if d.direct {
		flags |= unix.O_DIRECT
	}
	return flags
}

// make creates a file with its room and brings it to the disk, name included.
// It touches nothing of the folder that changes, so that any goroutine may.
func (d *folder) make(name string, size int64) (fd int, err error) {
	// Asked first: some file systems give all they have before they say no, and
	// others on the disk would find it full.
	if free, _, err := d.Space(); err == nil && free < size {
		return -1, failed("create", d.full(name), -1, fmt.Errorf("%d bytes, %d are free: %w", size, free, unix.ENOSPC))
	}
	fd, err = unix.Openat(int(d.dir.Fd()), name, d.fileFlags()|unix.O_CREAT|unix.O_EXCL, 0o666)
	if err != nil {
		return -1, failed("create", d.full(name), -1, err)
	}
	err = again(func() error { return unix.Fallocate(fd, 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = unix.Ftruncate(fd, size) // the room comes with the writes
	}
	if err == nil {
		err = cmp.Or(unix.Fsync(fd), unix.Fsync(int(d.dir.Fd())))
	}
	if err != nil {
		_ = unix.Close(fd)
		_ = unix.Unlinkat(int(d.dir.Fd()), name, 0)
		return -1, failed("create", d.full(name), -1, err)
	}
	return fd, nil
}

// unlink removes a name, durably. Any goroutine may.
func (d *folder) unlink(name string) error {
	if err := cmp.Or(unix.Unlinkat(int(d.dir.Fd()), name, 0), unix.Fsync(int(d.dir.Fd()))); err != nil {
		return failed("remove", d.full(name), -1, err)
	}
	return nil
}

// Create, Open and the next ones are those of Device.
func (d *folder) Create(name string, size int64) (int, error) {
	if err := cmp.Or(d.open(), badName(name), badSize(name, size, d.block)); err != nil {
		return -1, err
	}
	fd, err := d.make(name, size)
	if err != nil {
		return -1, err
	}
	return d.add(fd, name, size)
}

func (d *folder) Open(name string) (int, int64, error) {
	if err := cmp.Or(d.open(), badName(name)); err != nil {
		return -1, 0, err
	}
	fd, err := unix.Openat(int(d.dir.Fd()), name, d.fileFlags(), 0)
	if err != nil {
		return -1, 0, failed("open", d.full(name), -1, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size%int64(d.block) != 0) {
		err = fmt.Errorf("%w: mode %#o and %d bytes, want a regular file of a multiple of %d", ErrRequest, st.Mode, st.Size, d.block)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, 0, failed("open", d.full(name), -1, err)
	}
	file, err := d.add(fd, name, st.Size)
	return file, st.Size, err
}

func (d *folder) add(fd int, name string, size int64) (int, error) {
	file := slices.IndexFunc(d.files, func(f openFile) bool { return f.fd < 0 })
	if file < 0 {
		file = len(d.files)
		d.files = append(d.files, openFile{fd: -1})
	}
	if d.made != nil {
		if err := d.made(file, fd); err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
	}
	d.files[file] = openFile{fd: fd, name: name, size: size}
	return file, nil
}

// file gives an open file, or nil.
func (d *folder) file(i int) *openFile {
	if i < 0 || i >= len(d.files) || d.files[i].fd < 0 {
		return nil
	}
	return &d.files[i]
}

func (d *folder) CloseFile(i int) error {
	f := d.file(i)
	switch {
	case f == nil:
		return noFile(i)
	case f.flight > 0:
		return fmt.Errorf("%w: closing %s with %d requests in flight; wait for them", ErrRequest, d.full(f.name), f.flight)
	}
	var err error
	if d.gone != nil {
		err = d.gone(i)
	}
	err = cmp.Or(err, unix.Close(f.fd))
	f.fd = -1
	return err
}

func (d *folder) List() ([]string, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, failed("list", d.path, -1, err)
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && badName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (d *folder) Rename(from, to string) error {
	if err := cmp.Or(d.open(), badName(from), badName(to)); err != nil {
		return err
	}
	dir := int(d.dir.Fd())
	if err := cmp.Or(unix.Renameat(dir, from, dir, to), unix.Fsync(dir)); err != nil {
		return failed("rename", d.full(from), -1, err)
	}
	for i := range d.files {
		if d.files[i].name == from {
			d.files[i].name = to
		}
	}
	return nil
}

func (d *folder) Remove(name string) error {
	if err := cmp.Or(d.open(), badName(name)); err != nil {
		return err
	}
	return d.unlink(name)
}

func (d *folder) Space() (free, total int64, err error) {
	if err := d.open(); err != nil {
		return 0, 0, err
	}
	var st unix.Statfs_t
	if err := again(func() error { return unix.Fstatfs(int(d.dir.Fd()), &st) }); err != nil {
		return 0, 0, failed("space", d.path, -1, err)
	}
	return int64(st.Bavail) * st.Frsize, int64(st.Blocks) * st.Frsize, nil
}

func (d *folder) Block() int { return d.block }

func (d *folder) open() error {
	if d.dir == nil {
		return ErrClosed
	}
	return nil
}

func (d *folder) close() error {
	var err error
	for i := range d.files {
		if d.files[i].fd >= 0 {
			err = cmp.Or(err, unix.Close(d.files[i].fd))
			d.files[i].fd = -1
		}
	}
	for _, f := range []*os.File{d.dir, d.lock} {
		if f != nil {
			err = cmp.Or(err, f.Close())
		}
	}
	d.dir, d.lock = nil, nil
	return err
}

// again repeats a call that a signal cut off.
func again(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// unit is the folder's part of a device's String.
func (d *folder) unit() string {
	if d.direct {
		return fmt.Sprintf("%d B blocks", d.block)
	}
	return fmt.Sprintf("%d B blocks through the page cache (%s)", d.block, d.why)
}
