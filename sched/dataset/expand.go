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
	case p == "-" && err != nil:
		return nil, fileError(p, err, "no such file, and standard input cannot be read, as rows are read more than once and by several processes: write them into a file first")
	case err == nil && ownFile(p) && info.Mode().IsRegular():
		return nil, fileError(p, nil, "is what this process alone has open, and others read the rows, too: name the file itself")
	case err == nil && info.IsDir():
		return filesIn(p)
	case err == nil && !info.Mode().IsRegular():
		return nil, notRegular(p, info.Mode())
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
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, fileError(p, nil, "the pattern matches no file")
	}
	slices.Sort(files)
	return files, nil
}

// ownFile: a path that each process has for another file.
func ownFile(p string) bool {
	return p == "/dev/stdin" || strings.HasPrefix(p, "/dev/fd/") || strings.HasPrefix(p, "/proc/self/fd/")
}

// notRegular says why what a path names cannot be read: a file is read again for every look
// and every epoch, and by several processes.
func notRegular(p string, mode fs.FileMode) *Error {
	kind := "a device"
	switch mode & fs.ModeType {
	case fs.ModeNamedPipe:
		kind = "a pipe"
	case fs.ModeSocket:
		kind = "a socket"
	}
	return fileError(p, nil, "is no regular file but %s, which can be read only once and by one process: write what comes out of it into a file first", kind)
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
