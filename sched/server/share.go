package server

import (
	"cmp"
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
	lanes := int64(l.cfg.Map.LanesOf(l.cfg.ID))
	room, others := l.cfg.MaxBytes/lanes-l.storage.disks.Bytes(), int64(0)
	for _, t := range l.cfg.Tables {
		if given := l.given(t); given > 0 {
			room -= given
		} else {
			others++
		}
	}
	given := l.given(spec)
	switch {
	case given > 0 && l.fits(spec, given) != nil:
		return 0, &MemoryError{Table: spec.Name, Bytes: given * l.shares(), Least: l.least(spec) * l.shares()}
	case room < 0 || given == 0 && l.fits(spec, room/max(1, others)) != nil:
		return 0, &MemoryError{Bytes: l.cfg.MaxBytes / lanes * l.shares(), Least: l.leastMemory() * l.shares()}
	case given > 0:
		return given, nil
	}
	return room / max(1, others), nil
}

// given is what the tables file gives a table of a lane's memory; 0: nothing.
func (l *lane) given(spec table.Spec) int64 {
	return l.cfg.Storage.Memory[spec.ID] / int64(l.cfg.Map.LanesOf(l.cfg.ID))
}

// shares is how many equal parts a process's memory has: one for each lane of each group.
func (l *lane) shares() int64 { return int64(l.cfg.Map.LanesOf(l.cfg.ID) * max(1, l.cfg.parts)) }

// MemoryError reports a memory budget that is too small for rows on disks.
type MemoryError struct {
	Table string `json:"table,omitempty"` // its `memory:` is too small; "": the process's budget is
	Bytes int64  `json:"bytes"`           // of the budget
	Least int64  `json:"least"`           // bytes that work
}

func (e *MemoryError) Error() string {
	if e.Table != "" {
		return fmt.Sprintf("server: `memory:` of table %q gives it %d bytes, %d bytes are the least that works; give it those, and as much more by --mem-budget", e.Table, e.Bytes, e.Least)
	}
	return fmt.Sprintf("server: a memory of %d bytes is too small for the tables and the buffers of their disks; raise --mem-budget to %d bytes at least", e.Bytes, e.Least)
}

// BadInput says that the user's input is at fault.
func (e *MemoryError) BadInput() bool { return true }

// leastMemory is the least memory of a lane in which all tables have room. It is exact
// to some KiB where the disks have their smallest buffers.
func (l *lane) leastMemory() int64 {
	given, least, others := int64(0), int64(1), int64(0)
	for _, t := range l.cfg.Tables {
		if g := l.given(t); g > 0 {
			given += max(g, l.least(t))
			continue
		}
		others++
		least = max(least, l.least(t))
	}
	buffers, devices := l.storage.disks.Bytes(), int64(len(l.cfg.Storage.Dirs))
	if all := given + others*least + buffers; all/bufferShare > devices*leastBuffer {
		buffers += devices * (deviceBuffer - leastBuffer)
	}
	return given + others*least + buffers
}

// least is the least room of a table in a lane's memory.
func (l *lane) least(spec table.Spec) int64 {
	high := int64(leastTable)
	for high < 1<<40 && l.fits(spec, high) != nil {
		high *= 2
	}
	for low := high / 2; high-low > 4<<10; {
		if mid := (low + high) / 2; l.fits(spec, mid) == nil {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

func (l *lane) fits(spec table.Spec, room int64) error {
	return tiers.Fits(spec, l.tieredConfig(spec, room))
}

// leastTable is about what a table takes without a row, useBytes what an announced use
// takes, fewRows a batch that there is room for or a table has none.
const (
	leastTable = 64 << 10
	useBytes   = 28
	fewRows    = 16
)

// tieredConfig describes a table with as large a batch as was thought, or, where its memory
// has no room for that, one of which two take half of it: the index has the rest.
func (l *lane) tieredConfig(spec table.Spec, room int64) tiers.Config {
	c := l.cfg.Storage
	rows := cmp.Or(c.BatchRows/l.cfg.Map.Lanes(), 1024)
	most := int(room / int64(spec.RowBytes()+frameBytes) / batchesInMemory)
	apart := max(0, min(l.cfg.apart(), AheadSteps)) // how far workers may be
	cfg := tiers.Config{Disks: l.storage.disks, Node: l.cfg.Node, MaxBytes: room,
		BatchRows: max(1, min(rows, most)), Policy: c.Policy, Window: c.LookAhead + StepsAtWork + apart, Ahead: ReadSteps + apart, Pmem: c.Pmem}
	if tiers.Fits(spec, cfg) != nil {
		half := max(0, room-leastTable) / 2
		cfg.BatchRows = max(fewRows, min(cfg.BatchRows, int(half)/(2*(spec.RowBytes()+frameBytes)+useBytes*cfg.Window)))
	}
	return cfg
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
