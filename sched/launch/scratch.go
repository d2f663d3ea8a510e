package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	scratchPrefix = "psrt-"
	markerName    = "launcher"
	markerMax     = 4096 // bytes; ours have a hundred
)

// marker says whose directory it is. A live owner also holds a lock (flock) on
// its file, which is seen where its pid is not: in another container.
type marker struct {
	Psrt  int    `json:"psrt"` // version of the marker, 1
	Host  string `json:"host"`
	Boot  string `json:"boot"` // the kernel's boot id
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after the boot
}

// Scratch is a launcher's own directory: sockets, the job's token. Only its
// user can enter it.
type Scratch struct {
	Path string
	lock *os.File
}

// OpenScratch makes one in parent, having removed those of launchers that were
// killed there and could not.
func OpenScratch(parent string) (*Scratch, error) {
	sweep(parent, os.Geteuid())
	dir, err := os.MkdirTemp(parent, scratchPrefix)
	if err != nil {
		return nil, fmt.Errorf("launch: no directory for sockets: %w; set TMPDIR", err)
	}
	s := &Scratch{Path: dir}
	if s.lock, err = mark(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("launch: %w", err), s.Close())
	}
	return s, nil
}

// Unlink takes the directory away from under whoever has files of it open, who is about
// to end: a process that is killed then leaves nothing, or what the next start removes.
// Close is called nevertheless.
func (s *Scratch) Unlink() error {
	gone := s.Path + endedSuffix
	// Who is still writing makes no file there by its name any more.
	if err := os.Rename(s.Path, gone); err != nil {
		return err
	}
	return remove(gone)
}

const endedSuffix = ".ended"

// Close removes the directory.
func (s *Scratch) Close() error {
	err := errors.Join(remove(s.Path), remove(s.Path+endedSuffix))
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// remove takes away a directory, the marker last: a process that is killed meanwhile
// leaves one that is known for what it is.
func remove(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != markerName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// mark writes and locks the marker of this process. Where the process cannot
// be told from a later one with the same pid there is none, and the directory
// is nobody's to sweep.
func mark(dir string) (*os.File, error) {
	m, err := self()
	if err != nil {
		return nil, nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, markerName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// Some network file systems have no locks; pid and start stand alone there.
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if _, err := f.Write(text); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
