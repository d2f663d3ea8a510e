package ckpt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
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
	remedy := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		remedy = fmt.Sprintf("; free space on the device of %s or write elsewhere", filepath.Dir(path))
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		remedy = "; choose a directory that this user may write to"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		remedy = "; choose a directory that is new or holds a model"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		remedy = "; raise the limit of open files (ulimit -n)"
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err // its path is said already
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		err = l.Err
	}
	return fmt.Errorf("ckpt: %s %s: %w%s", doing, path, err, remedy)
}
