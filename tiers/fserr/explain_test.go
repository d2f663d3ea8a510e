package fserr

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "open", Path: "/a/b", Err: syscall.ENOSPC}, "writing /a/b: no space left on device; free space on the device of /a or write elsewhere"},
		{&os.LinkError{Op: "rename", Old: "/a/b", New: "/a/c", Err: syscall.EACCES}, "writing /a/b: permission denied; choose a directory that this user may write to"},
		{syscall.ENOTDIR, "writing /a/b: not a directory; choose a directory that is new or holds a model"},
		{syscall.EMFILE, "writing /a/b: too many open files; raise the limit of open files (ulimit -n)"},
		{syscall.EXDEV, "writing /a/b: invalid cross-device link; this file system or mount point cannot do that to a directory that is there: choose a new one"},
		{syscall.EIO, "writing /a/b: input/output error"},
	} {
		err := Explain("writing", "/a/b", "a model", c.err)
		var cause syscall.Errno
		if err.Error() != c.want || !errors.As(err, &cause) || !errors.Is(c.err, cause) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
