package coll

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed: the group was closed here.
	ErrClosed = errors.New("coll: group closed")
	// ErrBusy: MaxPending calls are not over.
	ErrBusy = errors.New("coll: too many calls are not over: wait for some")
	// ErrWrites marks memory that may still be written to, by a card that has not ended
	// the copies of a call that failed: it must neither be used nor given back while the
	// process lives.
	ErrWrites = errors.New("coll: registered memory may still be written to")
)

// Fault is what a rank did.
type Fault uint8

// The faults.
const (
	Gone    Fault = iota + 1 // its process ended, or its connection
	Silent                   // it did not answer in time: stopped, or out of reach
	Late                     // it runs, and did not come to the call in time
	Aborted                  // it gave up and said why
	Differs                  // it made another call
)

func (f Fault) String() string {
	names := [...]string{"?", "is gone", "does not answer", "did not come in time", "gave up", "made another call"}
	if int(f) < len(names) {
		return names[f]
	}
	return fmt.Sprintf("fault(%d)", uint8(f))
}

func (f Fault) remedy() string {
	switch f {
	case Gone, Silent:
		return "look at its log; the others may join a new group without it, or with the process that takes its place"
	case Late:
		return "every rank must make every call: look at what it does instead, or allow more time"
	case Differs:
		return "all ranks must make the same calls in the same order"
	}
	return ""
}

// RankError blames a rank.
type RankError struct {
	Rank  int // whom
	Fault Fault
	Call  uint64 // the number of the call, from 1; 0 outside of calls
	Kind  Kind
	Cause error // may be nil
}

func (e *RankError) Error() string {
	s := "coll: "
	if e.Call > 0 {
		s += fmt.Sprintf("call %d (%s): ", e.Call, e.Kind)
	}
	s += fmt.Sprintf("rank %d %s", e.Rank, e.Fault)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	if r := e.Fault.remedy(); r != "" {
		s += "; " + r
	}
	return s
}

func (e *RankError) Unwrap() error { return e.Cause }
