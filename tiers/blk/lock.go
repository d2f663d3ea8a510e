package blk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"psrt/tiers/flock"
)

// LockName is the file that is locked, with the holder's process id in it. Who removes
// it holds the lock, and removes nothing of the directory's later.
const LockName = ".lock"

// Lock takes a directory for this process until Close, or gives a *LockedError.
// The kernel lets go of it when the process ends, however that happens. Open
// does this by itself.
func Lock(dir string) (io.Closer, error) { return lock(dir) }

func lock(dir string) (*os.File, error) {
	for {
		f, err := lockNow(dir)
		if err != nil || isAt(f, filepath.Join(dir, LockName)) {
			return f, err
		}
		f.Close() // the holder before has removed it meanwhile
	}
}

// isAt says whether an open file is the one at a path. What cannot be looked at is.
func isAt(f *os.File, path string) bool {
	own, err := f.Stat()
	if err != nil {
		return true
	}
	there, err := os.Stat(path)
	return err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && os.SameFile(own, there)
}

func lockNow(dir string) (*os.File, error) {
	path := filepath.Join(dir, LockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("blk: locking %s: %w; give a directory that exists and may be written to", dir, err)
	}
	busy, err := flock.Take(f, flock.Grace)
	if busy {
		pid := readPID(f)
		f.Close()
		return nil, &LockedError{Dir: dir, PID: pid}
	}
	if err == nil {
		err = writePID(f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("blk: locking %s: %w", dir, err)
	}
	return f, nil
}

// readPID may come between the holder's lock and its writePID and read an old
// holder's number or none: the message is then less helpful, nothing else.
func readPID(f *os.File) int {
	var b [20]byte
	n, _ := f.ReadAt(b[:], 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}
