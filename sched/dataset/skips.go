package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNoRows is the cause of an *Error about files that are whole and hold no rows.
var ErrNoRows = errors.New("dataset: no rows")

// Reasons for which a file that was not named itself is left out.
const (
	asideEmpty      = "empty"
	asideHeader     = "a header and no rows"
	asidePipe       = "no row from the pipe command"
	asideUnfinished = "unfinished by the name"
	asideHidden     = "hidden or a marker by the name"
	asideDirectory  = "a directory, which is not looked into"
	asideGone       = "a link to nothing"
	asideSpecial    = "a pipe, socket or device"
)

// unfinished are the endings under which files are customarily written.
var unfinished = []string{".tmp", ".part", ".partial", ".inprogress", "._COPYING_", "~"}

// asideByName returns the reason why a directory or a pattern does not bring a file of that
// name, "" where it does. A pattern that asks for such names brings them; pattern is its last
// part, "" for a directory.
func asideByName(name, pattern string) string {
	for _, first := range []string{".", "_"} {
		if strings.HasPrefix(name, first) && !strings.HasPrefix(pattern, first) {
			return asideHidden
		}
	}
	for _, end := range unfinished {
		if strings.HasSuffix(name, end) && !strings.HasSuffix(pattern, end) {
			return asideUnfinished
		}
	}
	return ""
}

// asideByKind returns the reason why an entry is not read, "" for a plain file.
func asideByKind(path string) string {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return asideGone
	case err != nil || info.Mode().IsRegular(): // reading it says what is wrong
		return ""
	case info.IsDir():
		return asideDirectory
	}
	return asideSpecial
}

// skips are the files that directories and patterns have brought and nobody reads.
type skips struct {
	seen  int // files brought, read or not
	files []skipped
}

type skipped struct {
	listed
	why string
}

func (s *skips) add(f listed, why string) { s.files = append(s.files, skipped{f, why}) }

// shownSkips bounds the names that a line has of each kind.
const shownSkips = 4

// line counts and names the files in one line, "" for none.
func (s *skips) line() string {
	if len(s.files) == 0 {
		return ""
	}
	var from []string
	for _, f := range s.files {
		if !slices.Contains(from, f.from) {
			from = append(from, f.from)
		}
	}
	return fmt.Sprintf("skipped %d of the %d file(s) in %s: %s", len(s.files), s.seen, firstOf(from), byReason(s.files))
}

// byReason names files under the reason for which they are left out.
func byReason(files []skipped) string {
	var parts []string
	for _, why := range []string{asideEmpty, asideHeader, asidePipe, asideUnfinished, asideHidden, asideDirectory, asideGone, asideSpecial} {
		var names []string
		for _, f := range files {
			if f.why == why {
				names = append(names, filepath.Base(f.path))
			}
		}
		if len(names) > 0 {
			parts = append(parts, fmt.Sprintf("%s (%s)", firstOf(names), why))
		}
	}
	return strings.Join(parts, "; ")
}

func firstOf(names []string) string {
	text := strings.Join(names[:min(len(names), shownSkips)], ", ")
	if more := len(names) - shownSkips; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// nothingLeft is the error about a directory or pattern of which no file is read, nil where
// each has one. read says which of them have.
func (s *skips) nothingLeft(files []listed, read map[string]bool) error {
	for _, f := range files {
		if f.from == "" || read[f.from] {
			continue
		}
		none := slices.DeleteFunc(slices.Clone(s.files), func(g skipped) bool { return g.from != f.from })
		return fileError(f.from, ErrNoRows, "none of its files has rows: %s; leave it out or put rows in it", byReason(none))
	}
	return nil
}
