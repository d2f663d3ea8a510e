package outdir

import (
	"errors"
	"fmt"

	"psrt/tiers/fserr"
)

var (
	// ErrNone: the directory has no manifest.
	ErrNone = errors.New("no export there")
	// ErrReplaced: another export has taken the place of the one being read.
	ErrReplaced = errors.New("another export has taken its place")
	// ErrCorrupt marks damage: bytes that are not what was written.
	ErrCorrupt = errors.New("damaged")
)

// CorruptError names what is damaged and how.
type CorruptError struct {
	Path string
	Why  string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("export: %s is damaged: %s; copy it again or export again", e.Path, e.Why)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// BadInput: the user's files are at fault.
func (e *CorruptError) BadInput() bool { return true }

// InputError is what the user asked for and cannot be.
type InputError struct{ Err error }

func (e *InputError) Error() string  { return e.Err.Error() }
func (e *InputError) Unwrap() error  { return e.Err }
func (e *InputError) BadInput() bool { return true }

// Refuse makes an InputError.
func Refuse(format string, args ...any) error { return &InputError{fmt.Errorf(format, args...)} }

// Corrupt makes a CorruptError.
func Corrupt(path, format string, args ...any) error {
	return &CorruptError{path, fmt.Sprintf(format, args...)}
}

// Explain adds what to do next to an error of the file system.
func Explain(doing, path string, err error) error {
	return fmt.Errorf("export: %w", fserr.Explain(doing, path, "an export", err))
}
