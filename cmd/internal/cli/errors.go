package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Exit codes of contract: a failure while running, bad usage or input.
const (
	Failed = 1
	Usage  = 2
)

// usageError is the user's fault: exit code 2.
type usageError struct{ error }

func (u usageError) Unwrap() error  { return u.error }
func (u usageError) BadInput() bool { return true }

// Usagef makes an error that is the user's fault.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Reported marks an error that was already shown.
type Reported struct{ Err error }

func (r *Reported) Error() string { return r.Err.Error() }
func (r *Reported) Unwrap() error { return r.Err }

// Exit shows err, unless it was shown, and gives the exit code.
func Exit(w io.Writer, program string, err error) int {
	if err == nil {
		return 0
	}
	var shown *Reported
	if !errors.As(err, &shown) {
		fmt.Fprintf(w, "%s: %s\n", program, oneLine(err.Error()))
	}
	// Not ExitCode: exec.ExitError has that, and a dead child's is not ours.
	var coded interface{ CommandExit() int }
	var bad interface{ BadInput() bool }
	switch {
	case errors.As(err, &coded):
		return coded.CommandExit()
	case errors.As(err, &bad) && bad.BadInput() || strings.HasPrefix(err.Error(), "unknown command"):
		return Usage
	}
	return Failed
}

// OneLine is an error as Exit shows it.
func OneLine(err error) string { return oneLine(err.Error()) }

// oneLine keeps an error on one line, except for the log lines that a dead
// rank's error carries on purpose.
func oneLine(s string) string {
	head, tail, found := strings.Cut(s, "\n  ")
	head = strings.ReplaceAll(head, "\n", "; ")
	if found {
		return head + "\n  " + tail
	}
	return head
}
