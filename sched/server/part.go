package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"psrt/tiers/blk"
)

// Part is what one group's server has of a process that may have to have n groups: that
// share of its memory, of its disks and of its device.
func (c *Config) Part(n int) Config {
	part, share := *c, int64(max(1, n))
	part.MaxBytes /= share
	part.parts = int(share)
	if c.Storage != nil {
		s := *c.Storage
		s.LimitBytes /= share
		s.Memory = make(map[uint32]int64, len(c.Storage.Memory))
		for id, bytes := range c.Storage.Memory {
			s.Memory[id] = bytes / share
		}
		part.Storage = &s
	}
	if c.Device != nil {
		d := *c.Device
		d.MaxBytes /= share
		d.Journal /= share
		part.Device = &d
	}
	part.Watch = WatchOff // it would look at each connection once for each group
	return part
}

// ownWithin and leaveWithin bound what disks may take to give a folder and to let it go.
const (
	ownWithin   = 2 * time.Minute
	leaveWithin = 10 * time.Second
)

// Own makes a folder in each directory for the groups of the server with a number, and
// keeps it for this process until end: groups have replicas in other processes, that may be
// of the same host. What a process before it left there is removed. A nil Storage stays nil.
func (s *Storage) Own(number int) (own *Storage, end func() error, err error) {
	if s == nil {
		return nil, func() error { return nil }, nil
	}
	folders := &folders{}
	took, err := within(ownWithin, func() error { return folders.take(s.Dirs, number) }, func() { _ = folders.leave() })
	if !took {
		err = fmt.Errorf("server: its folders in %s were not there within %v: does a disk of --ssd hang?", strings.Join(s.Dirs, ", "), ownWithin)
	}
	if err != nil {
		return nil, nil, err
	}
	own = &Storage{}
	*own = *s
	own.Dirs = folders.dirs
	return own, func() error {
		left, err := within(leaveWithin, folders.leave, func() {})
		if !left {
			err = fmt.Errorf("server: its folders in %s were not emptied within %v: does a disk of --ssd hang?", strings.Join(s.Dirs, ", "), leaveWithin)
		}
		return err
	}, nil
}

// within waits for f for a time; late is called when f has ended after that.
func within(d time.Duration, f func() error, late func()) (ended bool, err error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case err = <-done:
		return true, err
	case <-over.C:
	}
	go func() {
		if <-done == nil {
			late()
		}
	}()
	return false, nil
}

// folders are locked.
type folders struct {
	dirs  []string
	locks []io.Closer
}

// take makes a folder in each of dirs, or leaves none.
func (f *folders) take(dirs []string, number int) error {
	for _, d := range dirs {
		dir := filepath.Join(d, fmt.Sprintf("psrt-replica%d", number))
		lock, err := lockFolder(dir)
		if err == nil {
			f.dirs, f.locks = append(f.dirs, dir), append(f.locks, lock)
			err = dropServers(dir)
		}
		if err != nil {
			return errors.Join(&DirectoryError{err}, f.leave())
		}
	}
	return nil
}

// lockTries is how often a folder is made that who had it before removes.
const lockTries = 10

func lockFolder(dir string) (lock io.Closer, err error) {
	for range lockTries {
		if err = os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		if lock, err = blk.Lock(dir); !errors.Is(err, fs.ErrNotExist) {
			return lock, err
		}
	}
	return nil, err
}

// dropServers removes what groups' servers have in a folder.
func dropServers(dir string) error {
	found, err := os.ReadDir(dir)
	for _, e := range found {
		if strings.HasPrefix(e.Name(), "psrt-server") {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// leave removes the folders. From when a lock's file is gone, another may have the folder:
// it stays if it has something.
func (f *folders) leave() (err error) {
	for i, dir := range f.dirs {
		err = errors.Join(err, dropServers(dir), os.Remove(filepath.Join(dir, blk.LockName)))
		_ = os.Remove(dir)
		err = errors.Join(err, f.locks[i].Close())
	}
	f.dirs, f.locks = nil, nil
	return err
}
