package ckpt

import (
	"errors"
	"fmt"

	"psrt/tiers/fserr"
)

var (
	// ErrNoModel: the directory has no manifest.
	ErrNoModel = errors.New("no model there")
	// ErrCorrupt marks damage: bytes that are not what was written.
	ErrCorrupt = errors.New("damaged")
)

// CorruptError names what is damaged and how.
type CorruptError struct {
	Path string
	Why  string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("ckpt: %s is damaged: %s; restore it from a copy or train again", e.Path, e.Why)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

func corrupt(path, format string, args ...any) error {
	return &CorruptError{path, fmt.Sprintf(format, args...)}
}

// explain adds what to do next to an error of the file system.
func explain(doing, path string, err error) error {
	return fmt.Errorf("ckpt: %w", fserr.Explain(doing, path, "a model", err))
}
