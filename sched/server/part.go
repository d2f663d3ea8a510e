package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"psrt/tiers/blk"
)

// Part is what one group's server has of a process that may have to have n groups: that
// share of its memory, of its disks and of its device.
func (c *Config) Part(n int) Config {
	part, share := *c, int64(max(1, n))
	part.MaxBytes /= share
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
		part.Device = &d
	}
	part.Watch = WatchOff // it would look at each connection once for each group
	return part
}

// Own makes a folder in each directory for the groups of the server with a number, and
// keeps it for this process until end: groups have replicas in other processes, that may be
// of the same host. What a process before it left there is removed. A nil Storage stays nil.
func (s *Storage) Own(number int) (own *Storage, end func() error, err error) {
	if s == nil {
		return nil, func() error { return nil }, nil
	}
	var ends []func() error
	end = func() (err error) {
		for _, f := range ends {
			err = errors.Join(err, f())
		}
		return err
	}
	own = &Storage{}
	*own = *s
	own.Dirs = nil
	for _, d := range s.Dirs {
		dir := filepath.Join(d, fmt.Sprintf("psrt-replica%d", number))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, nil, errors.Join(&DirectoryError{err}, end())
		}
		lock, err := blk.Lock(dir)
		if err != nil {
			return nil, nil, errors.Join(&DirectoryError{err}, end())
		}
		ends = append(ends, func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) })
		left, err := filepath.Glob(filepath.Join(dir, "psrt-server*"))
		for _, old := range left {
			err = errors.Join(err, os.RemoveAll(old))
		}
		if err != nil {
			return nil, nil, errors.Join(&DirectoryError{err}, end())
		}
		own.Dirs = append(own.Dirs, dir)
	}
	return own, end, nil
}
