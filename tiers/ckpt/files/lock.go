package files

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"psrt/tiers/flock"
)

// LockName is the file whose lock the writer holds. It stays when the writer
// has gone, with the number of the last one in it.
const LockName = ".lock"

// Lock takes the file's flock, which ends with the process however that ends.
func (d *Dir) Lock(context.Context) (Lock, error) {
	if err := d.disk.MkdirAll(d.root); err != nil {
		return nil, err
	}
	// A new root is found after a crash only if its parent says so. Where the
	// parent cannot be opened it is somebody else's, and older.
	_ = d.disk.SyncDir(filepath.Dir(d.root))
	path := d.Path(LockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	busy, err := flock.Take(f, flock.Grace)
	if busy {
		defer f.Close()
		return nil, holder(f, d.root)
	}
	if err == nil {
		host, _ := os.Hostname() // only to be shown
		if err = f.Truncate(0); err == nil {
			_, err = fmt.Fprintf(f, "%d %s\n", os.Getpid(), host)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// holder reads who wrote the file last, who is the one that has it.
func holder(f *os.File, root string) error {
	e := &LockedError{Path: root}
	b := make([]byte, 256)
	n, err := f.ReadAt(b, 0)
	if err == nil || err == io.EOF {
		if _, err := fmt.Sscanf(string(b[:n]), "%d %s", &e.PID, &e.Host); err != nil {
			e.PID = 0 // it has only begun
		}
	}
	return e
}
