package ckpt

import (
	"os"

	"psrt/tiers/ckpt/files"
)

// writeFile writes a new file through to the disk.
func writeFile(d files.Disk, path string, b []byte) error {
	f, err := d.Create(path)
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
