package outdir

import (
	"errors"
	"os"
	"syscall"
)

// lockDir takes the lock of a directory, which ends with the file's Close or
// this process. It returns nil and no error when another has it, or when the
// directory is not at path any more.
func lockDir(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		mine, errMine := f.Stat()
		there, errThere := os.Lstat(path)
		if errMine == nil && errThere == nil && os.SameFile(mine, there) {
			return f, nil
		}
	}
	f.Close()
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, err
	}
	return nil, nil
}
