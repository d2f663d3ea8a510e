package ckpt

import (
	"fmt"
	"os"
	"time"

	"psrt/tiers/flock"
)

// lockTimeout bounds the wait for another process that switches models: it
// holds the lock for a few renames.
const lockTimeout = 10 * time.Second

// lockFile opens path and takes its lock, which ends with the file's Close or
// this process. It returns nil and no error when another has it after patience.
func lockFile(path string, patience time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	busy, err := flock.Take(f, patience)
	if busy || err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lockDir takes DIR/.lock.
func lockDir(path string) (*os.File, error) {
	f, err := lockFile(path, lockTimeout)
	switch {
	case err != nil:
		return nil, explain("locking", path, err)
	case f == nil:
		return nil, fmt.Errorf("ckpt: another process has held %s for %v; wait for it to end, or end it", path, lockTimeout)
	}
	return f, nil
}
