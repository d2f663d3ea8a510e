package ssd

import (
	"errors"
	"fmt"
)

var (
	// ErrBusy: all write buffers or free segments are in use for now. Poll gives
	// progress; then it goes on.
	ErrBusy = errors.New("ssd: busy; call again after Poll")
	// ErrClosed is a call on a closed store.
	ErrClosed = errors.New("ssd: the store is closed")
	// ErrCorrupt marks damage: bytes that are not what was written.
	ErrCorrupt = errors.New("ssd: damaged")
	// ErrFull marks a store at its limit.
	ErrFull = errors.New("ssd: full")
	// ErrFailed marks a store whose disks have failed it: it takes nothing more.
	ErrFailed = errors.New("ssd: the store has failed")
	// ErrStore marks devices that do not make up one store.
	ErrStore = errors.New("ssd: not the devices of one store")
)

// CorruptError says which bytes are damaged.
type CorruptError struct {
	Device string
	File   string
	Offset int64
	Why    string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("ssd: %s at byte %d (%s) is damaged: %s; restore the rows from a checkpoint, and check the disk", e.File, e.Offset, e.Device, e.Why)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// BadInput: the files on the user's disk are at fault.
func (e *CorruptError) BadInput() bool { return true }

// FullError says what takes the room. All are bytes on all devices together.
type FullError struct {
	Limit       int64 // that the store may take
	Used        int64 // by segments that hold rows
	Live        int64 // of rows that are in use
	Uncommitted int64 // of segments that a commit would set free
	Cause       error // why it cannot grow to Limit, or nil
}

func (e *FullError) Error() string {
	why := ""
	if e.Cause != nil {
		why = fmt.Sprintf("; growing failed: %v", e.Cause)
	}
	remedy := "raise the limit of the SSD tier, add a device, or let fewer rows live"
	if e.Uncommitted > 0 {
		remedy = "commit, which sets rows free that were overwritten since the last commit, or raise the limit"
	}
	return fmt.Sprintf("ssd: the store is full: limit %d bytes, %d in use, of which %d are live rows and %d wait for a commit%s; %s",
		e.Limit, e.Used, e.Live, e.Uncommitted, why, remedy)
}

// Is makes errors.Is(err, ErrFull) true.
func (e *FullError) Is(target error) bool { return target == ErrFull }

// Unwrap gives why the files do not grow.
func (e *FullError) Unwrap() error { return e.Cause }
