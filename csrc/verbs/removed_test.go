package verbs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// eventFiles are this process's channels of events of the library.
func eventFiles(t *testing.T) (fds []int) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err != nil || to != "anon_inode:[infinibandevent]" {
			continue // the folder's own is gone by now
		}
		fd, err := strconv.Atoi(filepath.Base(l))
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	return fds
}

// TestRemoved: the channel of a device that was removed is ready for ever, and
// has no event. A Wait that did not say so would make its caller spin.
func TestRemoved(t *testing.T) {
	c := device(t)
	if c == nil {
		return
	}
	before := eventFiles(t)
	q, err := c.NewCQ(4)
	if err != nil {
		t.Fatal(err)
	}
	fds := slices.DeleteFunc(eventFiles(t), func(fd int) bool { return slices.Contains(before, fd) })
	if len(fds) != 1 {
		t.Fatalf("a completion queue has the event files %v, want one", fds)
	}
	// A pipe's end that nobody reads looks to poll as such a channel does.
	channel, err := unix.Dup(fds[0])
	if err != nil {
		t.Fatal(err)
	}
	var pipe [2]int
	if err := errors.Join(unix.Pipe(pipe[:]), unix.Close(pipe[0]), unix.Dup3(pipe[1], fds[0], unix.O_CLOEXEC)); err != nil {
		t.Fatal(err)
	}
	err = q.Wait(-1, time.Minute)
	if back := errors.Join(unix.Dup3(channel, fds[0], unix.O_CLOEXEC), unix.Close(channel), unix.Close(pipe[1])); back != nil {
		t.Fatal(back)
	}
	if !errors.Is(err, syscall.ENODEV) {
		t.Errorf("Wait on the channel of a removed device: %v, want %v", err, syscall.ENODEV)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}
