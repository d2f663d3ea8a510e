package outdir

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// disk is the few things an export does to a file system, so that tests can
// make each of them fail, or be the last.
type disk interface {
	mkdirAll(dir string) error
	mkdir(dir string) error
	create(path string) (file, error) // must not exist
	replace(from, to string) error    // to may be a directory: then they change names
	syncDir(dir string) error
	removeAll(path string) error
}

type file interface {
	io.WriteCloser
	Sync() error
}

type osDisk struct{}

func (osDisk) mkdirAll(dir string) error { return os.MkdirAll(dir, 0o777) }
func (osDisk) mkdir(dir string) error    { return os.Mkdir(dir, 0o777) }
func (osDisk) create(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}
func (osDisk) removeAll(path string) error { return os.RemoveAll(path) }

// replace renames in one step, whether to is there or not. It is there again
// when another export of it ended meanwhile.
func (osDisk) replace(from, to string) error {
	for range 100 {
		err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
		if !errors.Is(err, syscall.ENOENT) {
			return err
		}
		// An empty directory that comes between is replaced, a full one is not.
		if err = os.Rename(from, to); !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
			return err
		}
	}
	return syscall.EBUSY
}

func (osDisk) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
