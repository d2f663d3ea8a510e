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
	Path   string
	Why    string
	Remedy string // "": a copy, or another training
}

func (e *CorruptError) Error() string {
	remedy := e.Remedy
	if remedy == "" {
		remedy = "restore it from a copy or train again"
	}
	return fmt.Sprintf("ckpt: %s is damaged: %s; %s", e.Path, e.Why, remedy)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// BadInput: the files that the user named are at fault.
func (e *CorruptError) BadInput() bool { return true }

func corrupt(path, format string, args ...any) error {
	return &CorruptError{Path: path, Why: fmt.Sprintf(format, args...)}
}

// explain adds what to do next to an error of the file system.
func explain(doing, path string, err error) error {
	return fmt.Errorf("ckpt: %w", fserr.Explain(doing, path, "a model", err))
}
