package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/rdma/mem"
	"psrt/rdma/secure"
	"psrt/sched/client"
	"psrt/sched/psmsg"
)

// Code is the kind of an Error: what a caller can decide by.
type Code int

const (
	Internal Code = iota // a bug
	Invalid              // an argument makes no sense; nothing was done
	BadConfig
	Token
	Connect // a server cannot be reached
	Timeout
	NoTable
	Mismatch // of a table's or the dense vector's description
	Stale    // ticket
	NoMemory
	Refused // by a server
	Busy
	IO
	Closed
	Clock
	Unreadable // memory of the caller
	NoHandle   // for those who give out handles
	TooSmall   // room of the caller
	NotFinite  // gradients, where Options.CheckFinite asks; the other rows were applied
	Device     // a GPU of the caller, or its driver: for those who work with one
)

// Error is every error of this package.
type Error struct {
	Code Code
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// CodeOf is the code of an error of this package, Internal for others.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

func errorf(code Code, format string, args ...any) error {
	return &Error{code, fmt.Errorf(format, args...)}
}

var errClosed = &Error{Closed, errors.New("kv: the client is closed")}

// coded finds the code of an error from below.
func coded(err error, otherwise Code) error {
	var refused *client.RefusedError
	var known *Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.As(err, &refused):
		switch refused.Code {
		case psmsg.CodeNoMemory:
			return &Error{NoMemory, err} // explain tells more
		case psmsg.CodeClock:
			return &Error{Clock, err}
		case psmsg.CodeNoTable:
			return &Error{NoTable, err}
		}
		return &Error{Refused, err}
	case errors.Is(err, secure.ErrToken):
		return &Error{Token, err}
	case errors.Is(err, mem.ErrNoMemory):
		return &Error{NoMemory, err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Timeout, err}
	}
	return &Error{otherwise, err}
}

// explainWithin bounds asking a server why it has no memory.
const explainWithin = 5 * time.Second

// explain adds to a server's "no memory" what was needed, the limit, and what helps.
// Without mu: it asks the server.
func (c *Client) explain(err error) error {
	var refused *client.RefusedError
	if err == nil || CodeOf(err) != NoMemory || !errors.As(err, &refused) {
		return err
	}
	why := ""
	var st psmsg.StatsReply
	ctx, cancel := context.WithTimeout(c.ctx, explainWithin)
	defer cancel()
	if c.call(ctx, refused.Server, psmsg.MethodStats, struct{}{}, &st) == nil && st.Refusal != "" {
		why = " (" + st.Refusal + ")"
	}
	return &Error{NoMemory, fmt.Errorf("%w%s; raise --mem-budget of psrt serve, or add servers", err, why)}
}
