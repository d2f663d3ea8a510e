package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"psrt/tiers"
	"psrt/tiers/blk"
	"psrt/tiers/table"
)

// tieredRoom is a table's part of the lane's memory: what it was given, or as much
// as each other of those that were given nothing.
func (l *lane) tieredRoom(spec table.Spec) (int64, error) {
	c, lanes := l.cfg.Storage, int64(l.cfg.Map.LanesOf(l.cfg.ID))
	all := l.cfg.MaxBytes / lanes
	room, others := all-l.storage.disks.Bytes(), int64(0)
	for _, t := range l.cfg.Tables {
		if given := c.Memory[t.ID] / lanes; given > 0 {
			room -= given
		} else {
			others++
		}
	}
	if room < 0 || others > 0 && room/others == 0 {
		return 0, fmt.Errorf("server: lane %d has %d bytes of memory; the buffers of its disks take %d, and tables more than is left; raise --mem-budget",
			l.global, all, l.storage.disks.Bytes())
	}
	if given := c.Memory[spec.ID] / lanes; given > 0 {
		return given, nil
	}
	return room / max(1, others), nil
}

// leastTable is about what a table takes without a row, useBytes what an announced use
// takes, fewRows a batch that there is room for or a table has none.
const (
	leastTable = 64 << 10
	useBytes   = 28
	fewRows    = 16
)

// fit makes a table with as large a batch as was thought, or, where its memory has
// no room for that, one of which two take half of it: the index has the rest.
func (l *lane) fit(spec table.Spec, cfg tiers.Config) (tiers.Rows, error) {
	made, err := tiers.NewTiered(spec, l.cfg.Seed, cfg)
	if errors.Is(err, tiers.ErrBudget) {
		room := max(0, cfg.MaxBytes-leastTable) / 2
		cfg.BatchRows = max(fewRows, min(cfg.BatchRows, int(room)/(2*(spec.RowBytes()+frameBytes)+useBytes*cfg.Window)))
		made, err = tiers.NewTiered(spec, l.cfg.Seed, cfg)
	}
	switch {
	case err == nil:
		return made, nil
	case errors.Is(err, tiers.ErrBudget):
		return nil, fmt.Errorf("%w (--mem-budget is %d bytes, for %d lanes of %d tables and the buffers of disks; raise it)",
			err, l.cfg.MaxBytes, l.cfg.Map.LanesOf(l.cfg.ID), len(l.cfg.Tables))
	}
	return nil, err
}

// emptyStale makes a lane's directory, and removes what a server that was killed has left there,
// however much of it is whole. One that is in use is not taken.
func emptyStale(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &DirectoryError{err}
	}
	lock, err := blk.Lock(dir)
	if err != nil {
		return &DirectoryError{err}
	}
	defer lock.Close()
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if name := f.Name(); strings.HasPrefix(name, "data-") || strings.HasPrefix(name, "manifest-") || name == "store" {
			err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
		}
	}
	if err != nil {
		return &DirectoryError{err}
	}
	return nil
}

// DirectoryError says that rows cannot lie in a directory of Storage.Dirs.
type DirectoryError struct{ Err error }

func (e *DirectoryError) Error() string { return "server: a directory for rows: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *DirectoryError) Unwrap() error { return e.Err }

// BadInput says that the user's input is at fault.
func (e *DirectoryError) BadInput() bool { return true }

// dropStale removes what a server of this number that had more lanes has left
// behind when it was killed. The first lane's directories are locked: it has ended.
func (l *lane) dropStale() {
	if l.index > 0 || l.cfg.Chain != nil {
		return
	}
	prefix := fmt.Sprintf("psrt-server%d-lane", l.cfg.ID)
	for _, d := range l.cfg.Storage.Dirs {
		found, _ := os.ReadDir(d)
		for _, e := range found {
			lane, is := strings.CutPrefix(e.Name(), prefix)
			n, err := strconv.Atoi(lane)
			if is && err == nil && n >= l.cfg.Map.LanesOf(l.cfg.ID) {
				_ = os.RemoveAll(filepath.Join(d, e.Name())) // else it stays: bytes that are missed, no more
			}
		}
	}
}
