package ssd

import (
	"fmt"
	"time"
)

// SilentError is a device that has been asked and does not answer.
type SilentError struct {
	Device string
	For    time.Duration
}

func (e *SilentError) Error() string {
	return fmt.Sprintf("ssd: no answer for %v from %s; look for it in the kernel's log; if it does not come back, start again from the checkpoint with another directory",
		e.For.Round(time.Millisecond), e.Device)
}

// Silent names the first device that has owed an answer for at least so long and
// given none, by a *SilentError; nil: there is none. Poll first.
func (s *Store) Silent(least time.Duration) error {
	for _, d := range s.disks {
		if d.inFlight == len(d.refused) {
			continue
		}
		if silent := time.Since(d.heard); silent >= least {
			return &SilentError{d.dev.String(), silent}
		}
	}
	return nil
}

// Owes says whether any device has yet to answer.
func (s *Store) Owes() bool {
	for _, d := range s.disks {
		if d.inFlight > 0 {
			return true
		}
	}
	return false
}
