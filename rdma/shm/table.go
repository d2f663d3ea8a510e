package shm

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// regionTable is the shared page run in which a domain says which of its
// regions are open: entry key%maxRegions holds the key of an open region,
// else 0. Peers map it read-only and look before every access, so that a
// closed region is refused without asking anyone.
type regionTable struct {
	seg     *segment
	entries []atomic.Uint64
}

const (
	maxRegions = 4096 // open in one domain
	tableSize  = maxRegions * 8
)

func newTable() (*regionTable, *os.File, error) {
	seg, file, err := newSegment("regions", tableSize)
	if err != nil {
		return nil, nil, err
	}
	readOnly, err := reopenReadOnly(file)
	file.Close()
	if err != nil {
		seg.unmap()
		return nil, nil, err
	}
	return tableOn(seg), readOnly, nil
}

func mapTable(file *os.File) (*regionTable, error) {
	seg, err := mapSegment(file, 0, tableSize, false)
	if err != nil {
		return nil, err
	}
	return tableOn(seg), nil
}

func tableOn(seg *segment) *regionTable {
	return &regionTable{seg: seg, entries: slots[atomic.Uint64](seg.bytes, 0, maxRegions)}
}

func (t *regionTable) open(key uint64) bool {
	return key != 0 && t.entries[key%maxRegions].Load() == key
}

// reopenReadOnly gives a descriptor of the same file that cannot be mapped
// for writing. Where /proc is not mounted there is none; then the right is
// kept by the peer's library alone, and a duplicate is given.
func reopenReadOnly(file *os.File) (*os.File, error) {
	path := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return duplicate(file)
	}
	if err != nil {
		return nil, fmt.Errorf("shm: reopening shared memory read-only: %w", err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

func duplicate(file *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("shm: duplicating a descriptor: %w (see ulimit -n)", err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
