package blk

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// What errors of this package are, for errors.Is. Besides them there are
// fs.ErrExist and fs.ErrNotExist, of names.
var (
	ErrNoSpace = errors.New("blk: no space left")
	ErrIO      = errors.New("blk: the disk failed")
	ErrRequest = errors.New("blk: request against the rules")
	ErrClosed  = errors.New("blk: device is closed")
	ErrCrashed = errors.New("blk: the power failed, says the test")
	ErrIdle    = errors.New("blk: nothing is in flight")
)

// Error is an operation that a device refused or failed.
type Error struct {
	Op     string // such as "read"
	Name   string // of the file, with the directory where there is one
	Offset int64  // -1 where it has no meaning
	Err    error
}

func (e *Error) Error() string {
	at := ""
	if e.Offset >= 0 {
		at = fmt.Sprintf(" at byte %d", e.Offset)
	}
	remedy := ""
	switch {
	case e.Is(ErrNoSpace):
		remedy = "; free some, or give another directory"
	case e.Is(ErrIO):
		remedy = "; see the system's log (dmesg), and replace the disk if it names it"
	}
	return fmt.Sprintf("blk: %s %s%s: %v%s", e.Op, e.Name, at, e.Err, remedy)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is sorts what kernels say into this package's errors.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNoSpace:
		return errors.Is(e.Err, unix.ENOSPC) || errors.Is(e.Err, unix.EDQUOT)
	case ErrIO:
		return errors.Is(e.Err, unix.EIO) || errors.Is(e.Err, ErrShort) || errors.Is(e.Err, unix.ENODEV) || errors.Is(e.Err, unix.EUCLEAN)
	}
	return false
}

// ErrShort is the cause of an Error when the kernel moved fewer bytes than
// asked for, and moved none when asked for the rest.
var ErrShort = errors.New("short transfer")

// LockedError says that another process, or another Device of this one, has the
// directory.
type LockedError struct {
	Dir string
	PID int // 0 if it could not be read
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("blk: directory %s is in use by %s; end it, or give another directory", e.Dir, who)
}

// BadInput says that the user's input is at fault.
func (e *LockedError) BadInput() bool { return true }

func failed(op, name string, offset int64, err error) error {
	return &Error{Op: op, Name: name, Offset: offset, Err: err}
}

// badName is an error for a name that is no plain file name. What begins with
// a dot is the device's own.
func badName(name string) error {
	if name == "" || name[0] == '.' || len(name) > 200 || !fs.ValidPath(name) {
		return fmt.Errorf("%w: file name %q, want a plain one of 1 to 200 bytes, without a dot in front", ErrRequest, name)
	}
	for i := range len(name) {
		if name[i] == '/' || name[i] == 0 {
			return fmt.Errorf("%w: file name %q holds %q", ErrRequest, name, name[i])
		}
	}
	return nil
}
