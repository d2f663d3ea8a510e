package dataset

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// DefaultSettle is how long a file must not have changed before it is taken for whole.
const DefaultSettle = 2 * time.Second

// longAgo is an age at which a file is whole at first sight, whatever the clocks of
// this machine and of the file's differ by.
const longAgo = time.Minute

// Watch looks for new files in directories and behind globs. It belongs to one
// goroutine.
type Watch struct {
	paths  []string
	settle time.Duration
	seen   map[string]sight // of those that are neither whole nor done
	// unsettled is a file that was not whole at the last look, "": all were.
	unsettled string
}

type sight struct {
	size  int64
	mtime time.Time
	since time.Time
}

// Arrival is a file that is whole.
type Arrival struct {
	Path  string
	Size  int64
	MTime time.Time // zero: not known
}

// Same says whether the file is what it was, as far as its size and time of change tell.
// One that is not there any more is.
func (a *Arrival) Same() bool {
	info, err := os.Stat(a.Path)
	return err != nil || info.Size() == a.Size && (a.MTime.IsZero() || info.ModTime().Equal(a.MTime))
}

// NewWatch watches paths as Open takes them; settle 0 is DefaultSettle.
func NewWatch(paths []string, settle time.Duration) *Watch {
	w := &Watch{settle: cmp.Or(settle, DefaultSettle), seen: make(map[string]sight)}
	for _, p := range paths {
		for _, one := range splitList(p) {
			w.paths = append(w.paths, filepath.Clean(one))
		}
	}
	return w
}

// Look gives the files that are whole and not done, in the order of the paths and then
// of their names. A file is whole when its size and its time of change have stayed as
// they are for the settle time; one without bytes has not come yet; names that asideByName leaves out are not looked at.
func (w *Watch) Look(now time.Time, done func(path string) bool) ([]Arrival, error) {
	var ready []Arrival
	seen, unsettled := make(map[string]sight), ""
	for _, p := range w.paths {
		found, err := w.list(p)
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			if _, twice := seen[path]; twice || done(path) {
				continue
			}
			if !utf8.ValidString(path) {
				return nil, fileError(path, nil, "its name %q is not UTF-8, which a stream's log keeps names in: rename it", path)
			}
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() {
				continue // it has gone again
			}
			s, known := w.seen[path]
			if !known || s.size != info.Size() || !s.mtime.Equal(info.ModTime()) {
				s = sight{info.Size(), info.ModTime(), now}
			}
			seen[path] = s
			if s.size == 0 {
				continue // its writer has opened it, and writes later
			}
			if now.Sub(s.since) >= w.settle || now.Sub(s.mtime) >= max(longAgo, w.settle) {
				ready = append(ready, Arrival{path, s.size, s.mtime})
			} else if unsettled == "" {
				unsettled = path
			}
		}
	}
	w.seen, w.unsettled = seen, unsettled
	return ready, nil
}

// Unsettled is a file that has come and was not whole at the last look, "" for none.
func (w *Watch) Unsettled() string { return w.unsettled }

// list is the files that a path stands for now, sorted by name.
func (w *Watch) list(p string) (files []string, err error) {
	pattern := ""
	switch info, err := os.Stat(p); {
	case err == nil && !info.IsDir() && !info.Mode().IsRegular():
		return nil, notRegular(p, info.Mode())
	case err == nil && !info.IsDir():
		return []string{p}, nil
	case err == nil:
		entries, err := os.ReadDir(p)
		if err != nil {
			return nil, fileError(p, err, "cannot be listed: %v", plain(err))
		}
		for _, e := range entries {
			files = append(files, filepath.Join(p, e.Name()))
		}
	case strings.ContainsAny(p, "*?["):
		if files, err = filepath.Glob(p); err != nil {
			return nil, fileError(p, err, "not a valid pattern: %v; quote or escape [ and \\", err)
		}
		slices.Sort(files)
		pattern = filepath.Base(p)
	default:
		return nil, fileError(p, err, "cannot be watched: %v; make the directory before the job begins", plain(err))
	}
	return slices.DeleteFunc(files, func(path string) bool {
		return asideByName(filepath.Base(path), pattern) != ""
	}), nil
}
