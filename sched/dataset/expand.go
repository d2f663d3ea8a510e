package dataset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// expand turns files, comma lists, globs and directories into the list of files
// to read. Arguments keep their order; what one glob or directory yields is
// sorted by name, so that every worker on every machine numbers rows alike.
// Directories give their plain files: no sub-folders, and no names that begin with
// a dot or an underscore (markers such as _SUCCESS).
func expand(paths []string) ([]string, error) {
	var files []string
	for _, arg := range paths {
		for _, p := range splitList(arg) {
			more, err := expandOne(p)
			if err != nil {
				return nil, err
			}
			files = append(files, more...)
		}
	}
	if len(files) == 0 {
		return nil, &Error{Msg: "no data file given; name files, globs or directories (--data PATH[,PATH...])"}
	}
	return files, nil
}

// splitList cuts a comma list, unless a file of exactly that name exists.
func splitList(arg string) []string {
	if !strings.Contains(arg, ",") {
		return []string{arg}
	}
	if _, err := os.Stat(arg); err == nil {
		return []string{arg}
	}
	var parts []string
	for part := range strings.SplitSeq(arg, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func expandOne(p string) ([]string, error) {
	info, err := os.Stat(p)
	switch {
	case err == nil && info.IsDir():
		return filesIn(p)
	case err == nil:
		return []string{p}, nil
	case !errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(p, "*?["):
		return nil, fileError(p, err, "cannot be read: %v", plain(err))
	case !strings.ContainsAny(p, "*?["):
		return nil, fileError(p, err, "no such file; check the path (it is taken from the directory the program was started in)")
	}
	found, err := filepath.Glob(p)
	if err != nil {
		return nil, fileError(p, err, "not a valid pattern: %v; quote or escape [ and \\", err)
	}
	files := found[:0]
	for _, f := range found {
		if info, err := os.Stat(f); err == nil && !info.IsDir() {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, fileError(p, nil, "the pattern matches no file")
	}
	slices.Sort(files)
	return files, nil
}

func filesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, fileError(dir, err, "cannot be listed: %v", plain(err))
	}
	var files []string
	for _, e := range entries {
		if n := e.Name(); n[0] == '.' || n[0] == '_' {
			continue
		}
		p := filepath.Join(dir, e.Name())
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			files = append(files, p)
		}
	}
	if len(files) == 0 {
		return nil, fileError(dir, nil, "the directory holds no data file (sub-directories and names that begin with . or _ are not looked at)")
	}
	return files, nil
}

// plain drops the operation and path that os errors repeat.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
