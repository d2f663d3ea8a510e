package accel

import (
	"errors"
	"fmt"
)

// ErrNotSupported marks a library that cannot be used, or a build that loads none.
var ErrNotSupported = errors.New("accel: not supported on this machine")

// noMemory is psrt_accel.h's PSRT_ACCEL_NO_MEMORY.
const noMemory = 1

// Error is a call that a library refused.
type Error struct {
	Library, Call string
	Result        int
	Text          string
}

func (e *Error) Error() string {
	return fmt.Sprintf("accel: %s: %s: %s (%d)", e.Library, e.Call, e.Text, e.Result)
}

// IsOutOfMemory says whether a device had too little memory.
func IsOutOfMemory(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Result == noMemory
}
