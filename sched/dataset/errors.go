package dataset

import (
	"fmt"
	"strconv"
)

// Error is bad input: what is wrong, where, and what to do about it. A command
// that meets one exits with code 2 (1 once training runs).
type Error struct {
	Path   string
	Line   int // from 1; 0 when the whole file is meant
	Column int // byte in the line, from 1; 0 when the whole line is meant
	Msg    string
	Err    error // the cause, if another package found it
}

// Error prints path:line:column: message, leaving out what is not known.
func (e *Error) Error() string {
	at := e.Path
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
		if e.Column > 0 {
			at += ":" + strconv.Itoa(e.Column)
		}
	}
	if at == "" {
		return e.Msg
	}
	return at + ": " + e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

// BadInput marks the error for commands that must not import this package's
// types to choose an exit code.
func (e *Error) BadInput() bool { return true }

func fileError(path string, err error, format string, args ...any) *Error {
	return &Error{Path: path, Msg: fmt.Sprintf(format, args...), Err: err}
}

// lineError is a fault inside one line, before path and line number are known.
type lineError struct {
	column int // from 1
	msg    string
}

func (e *lineError) at(path string, line int) *Error {
	return &Error{Path: path, Line: line, Column: e.column, Msg: e.msg}
}

func badLine(offset int, format string, args ...any) *lineError {
	return &lineError{column: offset + 1, msg: fmt.Sprintf(format, args...)}
}

// quote shows user bytes in a message: quoted, and cut so that a binary blob
// does not flood a terminal.
func quote(b []byte) string {
	const most = 40
	if len(b) > most {
		return strconv.Quote(string(b[:most])) + "..."
	}
	return strconv.Quote(string(b))
}
