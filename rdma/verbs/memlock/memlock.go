package memlock

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Check says whether need bytes may be registered now: nil, a *LimitError, or
// another error if it could not tell. It may raise this process's soft limit.
func Check(need int64) error {
	if need <= 0 {
		return nil
	}
	f, err := Read()
	if err != nil {
		return err
	}
	if !f.fits(need) && f.Soft < f.Hard {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: rlim(f.Hard), Max: rlim(f.Hard)}); err != nil {
			f.Raise = fmt.Errorf("setrlimit of RLIMIT_MEMLOCK to %s: %w", text(f.Hard), err)
		} else {
			f.Soft = f.Hard
		}
	}
	return Judge(f, need)
}

// Explain turns the refusal of a registration of need bytes into a *LimitError
// if the limit was the reason, and into a *NotLimitError if it would be taken
// for the reason but was not. Errors that speak of something else, and nil,
// come back as they are.
func Explain(err error, need int64) error {
	// EPERM is what the kernel says to a limit of 0.
	if !errors.Is(err, unix.ENOMEM) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EAGAIN) {
		return err
	}
	f, readErr := Read()
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	return explain(f, err, need)
}

func explain(f Facts, cause error, need int64) error {
	var limit *LimitError
	if errors.As(Judge(f, need), &limit) {
		limit.Cause = cause
		return limit
	}
	return &NotLimitError{Need: need, Soft: f.Soft, Pinned: f.Pinned, Cause: cause}
}
