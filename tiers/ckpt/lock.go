package ckpt

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockTimeout bounds the wait for another process that switches models: it
// holds the lock for a few renames.
const lockTimeout = 10 * time.Second

// flock opens path and takes its lock, which ends with the file's Close or
// this process. It returns nil and no error when another has it.
func flock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, err
	}
	return f, nil
}

// lockDir takes DIR/.lock.
func lockDir(path string) (*os.File, error) {
	for end := time.Now().Add(lockTimeout); ; time.Sleep(5 * time.Millisecond) {
		f, err := flock(path)
		if err != nil {
			return nil, explain("locking", path, err)
		}
		if f != nil {
			return f, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("ckpt: another process has held %s for %v; wait for it to end, or end it", path, lockTimeout)
		}
	}
}
