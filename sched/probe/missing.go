package probe

import (
	"errors"
	"fmt"
)

// ErrMissing marks every answer that this machine, or this user, cannot meter
// in the kernel; the caller then gives the runtime's own counters to a View.
var ErrMissing = errors.New("probe: no metering in the kernel")

// MissingError says what is not there and who brings it.
type MissingError struct {
	What   string // the capability, kernel option or file that lacks
	Needed string // for what
	Remedy string
	Cause  error
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("probe: %s needs %s, which is not here (%v); %s", e.Needed, e.What, e.Cause, e.Remedy)
}

func (e *MissingError) Unwrap() error { return e.Cause }

// Is makes every MissingError an ErrMissing.
func (e *MissingError) Is(target error) bool { return target == ErrMissing }
