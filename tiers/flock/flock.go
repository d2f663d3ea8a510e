package flock

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Grace is how long a holder that is going may take to go.
const Grace = time.Second

// tryAgain is between two looks.
const tryAgain = 5 * time.Millisecond

// Take locks f for its holder alone, and says whether another has it, after patience
// as before: 0 for one look.
func Take(f *os.File, patience time.Duration) (busy bool, err error) {
	for end := time.Now().Add(patience); ; time.Sleep(tryAgain) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return false, nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return false, err
		case !time.Now().Before(end):
			return true, nil
		}
	}
}
