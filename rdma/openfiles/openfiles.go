package openfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Count is how many files a process has open, of how many.
type Count struct{ Open, Limit int }

// Now counts those of this process. Where no file can be opened to count them, all are open.
func Now() Count {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur > 1<<30 {
		limit.Cur = 1 << 30
	}
	c := Count{Limit: int(limit.Cur)}
	listed, err := os.ReadDir("/proc/self/fd")
	switch {
	case err == nil:
		c.Open = len(listed) - 1 // one of them is the listing's own
	case scarce(err):
		c.Open = c.Limit
	}
	return c
}

// Error is an error for want of a file.
type Error struct {
	Count
	Need int // files that must be free; 0: one more
	Err  error
}

func (e *Error) Error() string {
	name := filepath.Base(os.Args[0])
	text := fmt.Sprintf("%s (process %d) has %d of at most %d files open", name, os.Getpid(), e.Open, e.Limit)
	if e.Need > 0 {
		text += fmt.Sprintf(", and needs %d more", e.Need)
	}
	text += "; raise the limit: ulimit -n, or LimitNOFILE= of its systemd unit"
	if e.Err == nil {
		return "too many open files: " + text
	}
	return fmt.Sprintf("%v (%s)", e.Err, text)
}

func (e *Error) Unwrap() error { return e.Err }

// spare is how many files a call that fails for want of one may have given back by then.
const spare = 3

// Explain adds the figures to an error for want of a file: one that says so, or any where
// no more than a few can be opened.
func Explain(err error) error {
	if err == nil || errors.As(err, new(*Error)) {
		return err
	}
	c := Now()
	if !scarce(err) && c.Open+spare < c.Limit {
		return err
	}
	return &Error{Count: c, Err: err}
}

// Room reports, as an *Error, that need files more than are open would pass the limit.
func Room(need int) error {
	if c := Now(); c.Open+need > c.Limit {
		return &Error{Count: c, Need: need}
	}
	return nil
}

func scarce(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }
