package fanin

import (
	"errors"
	"fmt"
)

// What can be wrong with a call. A peer causes all of them, never the lane, so
// they are answers to that peer; the state has not changed.
var (
	ErrWorker    = errors.New("no such worker")
	ErrFull      = errors.New("too many transfers of this worker are announced; it must wait for one to end")
	ErrDuplicate = errors.New("this worker has an unfinished transfer of that number")
	ErrEager     = errors.New("small enough to be sent without announcing it")
	ErrTooLarge  = errors.New("larger than a transfer may be; send it in parts")
	ErrKind      = errors.New("neither a pull nor a push")
	ErrUnknown   = errors.New("no such transfer: never announced, ended, or its worker left")
	ErrUngranted = errors.New("more bytes than were granted and are missing")
	ErrWord      = errors.New("neither plain nor behind nor hot")
)

// Error is one of the above with its figures.
type Error struct {
	Op     string // announce, arrived, cancel, leave, say
	Worker int
	ID     uint64
	Value  int64 // what was asked
	Limit  int64 // what would have been right
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("fanin: %s: worker %d, transfer %d: %v (%d, limit %d)", e.Op, e.Worker, e.ID, e.Err, e.Value, e.Limit)
}

func (e *Error) Unwrap() error { return e.Err }
