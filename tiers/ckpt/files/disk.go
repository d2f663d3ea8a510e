package files

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Disk is the primitive operations that Dir consists of, one call each, so that
// tests can count them, make each fail, or end the process there.
type Disk interface {
	MkdirAll(dir string) error
	Create(path string) (DiskFile, error) // must not exist
	Open(path string) (DiskReader, error)
	ReadDir(dir string) ([]fs.DirEntry, error)
	// Rename fails with fs.ErrExist if to is there and replace is false.
	Rename(from, to string, replace bool) error
	SyncDir(dir string) error
	RemoveAll(path string) error
}

// DiskFile is a file being written.
type DiskFile interface {
	io.WriteCloser
	Sync() error
}

// DiskReader is a file being read.
type DiskReader interface {
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

// OS is the machine's file system.
type OS struct{}

func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o777) }

func (OS) Create(path string) (DiskFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

func (OS) Open(path string) (DiskReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	// A hint only: the kernel reads further ahead.
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL)
	return f, nil
}

func (OS) ReadDir(dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }

func (OS) Rename(from, to string, replace bool) error {
	if replace {
		return os.Rename(from, to)
	}
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// A file system without the flag: the lock keeps other writers out.
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
		}
		return os.Rename(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (OS) RemoveAll(path string) error { return os.RemoveAll(path) }
