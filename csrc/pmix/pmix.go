package pmix

import (
	"errors"
	"fmt"
)

const (
	// MaxValue bounds one value, in bytes.
	MaxValue = 64 << 10
	maxKey   = 511
)

// ErrNotSupported: no PMIx library can be loaded here.
var ErrNotSupported = errors.New("pmix: not supported on this machine")

// Error is a status that the library returned.
type Error struct {
	Call   string
	Status int
	Text   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("pmix: PMIx_%s: %s (%d)", e.Call, e.Text, e.Status)
}

// statusTimeout is PMIX_ERR_TIMEOUT.
const statusTimeout = -24

// Timeout reports whether the library gave up waiting.
func (e *Error) Timeout() bool { return e.Status == statusTimeout }

func check(key string, value []byte) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("pmix: key of %d bytes, want 1 to %d", len(key), maxKey)
	}
	if len(value) == 0 || len(value) > MaxValue {
		return fmt.Errorf("pmix: value of %d bytes for %s, want 1 to %d", len(value), key, MaxValue)
	}
	return nil
}
