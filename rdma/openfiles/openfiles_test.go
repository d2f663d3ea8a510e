package openfiles

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// With no file left an error has the figures, whatever it says itself; else only one that is
// about files has.
func TestExplain(t *testing.T) {
	odd := errors.New("invalid argument")
	if got := Explain(odd); got != odd {
		t.Errorf("%v", got)
	}
	var files *Error
	if err := Explain(fmt.Errorf("socket: %w", syscall.EMFILE)); !errors.As(err, &files) || !errors.Is(err, syscall.EMFILE) || files.Limit <= files.Open {
		t.Errorf("%v", err)
	}
	if again := Explain(fmt.Errorf("dial: %w", files)); strings.Count(again.Error(), "ulimit -n") != 1 {
		t.Errorf("said twice: %v", again)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	one, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	low := Now().Open
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(low), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	full, room := Explain(odd), Room(4)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.As(full, &files) || files.Limit != low || !errors.Is(full, odd) {
		t.Errorf("with all %d files open: %v", low, full)
	}
	if !errors.As(room, &files) || files.Need != 4 {
		t.Errorf("room for 4 with all %d open: %v", low, room)
	}
	if err := Room(1); err != nil {
		t.Error(err)
	}
}
