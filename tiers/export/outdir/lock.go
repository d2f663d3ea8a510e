package outdir

import (
	"errors"
	"os"

	"psrt/tiers/flock"
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
	busy, err := flock.Take(f, 0)
	if !busy && err == nil {
		mine, errMine := f.Stat()
		there, errThere := os.Lstat(path)
		if errMine == nil && errThere == nil && os.SameFile(mine, there) {
			return f, nil
		}
	}
	f.Close()
	return nil, err
}
