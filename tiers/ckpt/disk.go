package ckpt

import (
	"io"
	"os"
)

// disk is the few things writing a model does to a file system, so that tests
// can make each of them fail.
type disk interface {
	mkdirAll(dir string) error
	mkdir(dir string) error
	create(path string) (file, error) // must not exist
	rename(from, to string) error
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
func (osDisk) rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) removeAll(path string) error  { return os.RemoveAll(path) }
func (osDisk) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// writeFile writes a new file through to the disk.
func writeFile(d disk, path string, b []byte) error {
	f, err := d.create(path)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// exists reports whether path is there; what cannot be looked at counts.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !os.IsNotExist(err)
}
