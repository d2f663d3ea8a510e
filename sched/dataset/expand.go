package dataset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// listed is a file to read. from is the directory or pattern that brought it, "" where the
// file was named itself: then it must have rows.
type listed struct{ path, from string }

// expand turns files, comma lists, globs and directories into the list of files
// to read. Arguments keep their order; what one glob or directory yields is
// sorted by name, so that every worker on every machine numbers rows alike.
// A directory gives its plain files, no sub-folders. skip gets the entries of directories and globs that
// are left out for their name or kind.
func expand(paths []string, skip *skips) ([]listed, error) {
	var files []listed
	for _, arg := range paths {
		for _, p := range splitList(arg) {
			more, err := expandOne(p, skip)
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

func expandOne(p string, skip *skips) ([]listed, error) {
	info, err := os.Stat(p)
	switch {
	case p == "-" && err != nil:
		return nil, fileError(p, err, "no such file, and standard input cannot be read, as rows are read more than once and by several processes: write them into a file first")
	case err == nil && ownFile(p) && info.Mode().IsRegular():
		return nil, fileError(p, nil, "is what this process alone has open, and others read the rows, too: name the file itself")
	case err == nil && info.IsDir():
		return filesIn(p, skip)
	case err == nil && !info.Mode().IsRegular():
		return nil, notRegular(p, info.Mode())
	case err == nil:
		return []listed{{path: p}}, nil
	case !errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(p, "*?["):
		return nil, fileError(p, err, "cannot be read: %v", plain(err))
	case !strings.ContainsAny(p, "*?["):
		return nil, fileError(p, err, "no such file; check the path (it is taken from the directory the program was started in)")
	}
	found, err := filepath.Glob(p)
	if err != nil {
		return nil, fileError(p, err, "not a valid pattern: %v; quote or escape [ and \\", err)
	}
	slices.Sort(found)
	return regular(p, filepath.Base(p), found, skip)
}

// regular returns those of the paths that are files to read. from brought them, a pattern
// with the last part pattern, or a directory. None is an error.
func regular(from, pattern string, paths []string, skip *skips) (files []listed, err error) {
	left := len(skip.files)
	for _, path := range paths {
		skip.seen++
		why := asideByName(filepath.Base(path), pattern)
		if why == "" {
			why = asideByKind(path)
		}
		if why != "" {
			skip.add(listed{path, from}, why)
			continue
		}
		files = append(files, listed{path, from})
	}
	if len(files) > 0 {
		return files, nil
	}
	none := "the directory holds no data file"
	if pattern != "" {
		none = "the pattern matches no file"
	}
	if aside := skip.files[left:]; len(aside) > 0 {
		none += " but " + byReason(aside) + "; name a file itself to read it"
	}
	return nil, fileError(from, nil, "%s", none)
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

func filesIn(dir string, skip *skips) ([]listed, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, fileError(dir, err, "cannot be listed: %v", plain(err))
	}
	paths := make([]string, len(entries))
	for i, e := range entries {
		paths[i] = filepath.Join(dir, e.Name())
	}
	return regular(dir, "", paths, skip)
}

// plain drops the operation and path that os errors repeat.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
