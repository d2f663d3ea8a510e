package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// File is an output of which nothing is seen until it is whole; what was there before
// stays until then. Not for several goroutines.
type File struct {
	*os.File
	name string // "": it has its name already
}

// Create begins the file of that name. A directory is refused.
func Create(name string) (*File, error) {
	if to, err := filepath.EvalSymlinks(name); err == nil {
		name = to
	}
	f := &File{name: name}
	at, err := os.Stat(name)
	switch {
	case err == nil && at.IsDir():
		return nil, fmt.Errorf("%s is a directory: give the name of a file", name)
	case err == nil && !at.Mode().IsRegular():
		f.name = ""
		f.File, err = open(name, at.Mode()&os.ModeNamedPipe != 0)
	default:
		f.File, err = os.Create(TmpName(name))
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// readerWithin is how long a pipe may be without a reader.
const readerWithin = 10 * time.Second

// open waits no longer than that: opened as files are, such a pipe would hold up its
// writer, and what ends it, for ever.
func open(name string, pipe bool) (*os.File, error) {
	for end := time.Now().Add(readerWithin); ; time.Sleep(20 * time.Millisecond) {
		f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if !pipe || !errors.Is(err, syscall.ENXIO) {
			return f, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("nobody reads from the pipe %s within %v: start its reader first", name, readerWithin)
		}
	}
}

// TmpName is where the file of a name is until it is whole.
func TmpName(name string) string { return name + ".tmp" }

// End gives the file its name, or takes it away. It closes the file.
func (f *File) End(keep bool) error {
	err := f.Close()
	switch {
	case f.name == "":
	case keep && err == nil:
		err = os.Rename(TmpName(f.name), f.name)
	default:
		err = errors.Join(err, os.Remove(TmpName(f.name)))
	}
	return err
}

// Remove takes away what was written under the name, if that is a file at all: a pipe or
// device stays.
func Remove(name string) {
	if at, err := os.Stat(name); err == nil && at.Mode().IsRegular() {
		_ = os.Remove(name) // somebody else may have
	}
}
