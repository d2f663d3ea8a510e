package fserr

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Explain is "doing path: err; what to do next". holds is what a directory may be
// given for: "a model".
func Explain(doing, path, holds string, err error) error {
	remedy := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		remedy = fmt.Sprintf("; free space on the device of %s or write elsewhere", filepath.Dir(path))
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		remedy = "; choose a directory that this user may write to"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		remedy = "; choose a directory that is new or holds " + holds
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		remedy = "; raise the limit of open files (ulimit -n)"
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EXDEV):
		remedy = "; this file system or mount point cannot do that to a directory that is there: choose a new one"
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err // its path is said already
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		err = l.Err
	}
	return fmt.Errorf("%s %s: %w%s", doing, path, err, remedy)
}
