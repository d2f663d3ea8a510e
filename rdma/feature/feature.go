package feature

import (
	"errors"
	"fmt"
)

// ErrNotSupported marks the answer no.
var ErrNotSupported = errors.New("feature: not supported on this machine")

// Test is a question about the machine.
type Test struct {
	Name        string
	Requirement string // what must be there
	Remedy      string // the command that brings it
	// Lab is the value of PSRT_LAB under which the feature must be there: then
	// SkipUnless fails instead of skipping.
	Lab string
	// Probe answers nil, an error made by missing, or any other error for
	// could not tell.
	Probe func(Root) error
}

// MissingError is the answer no.
type MissingError struct {
	Test   Test
	Detail string
}

func (e *MissingError) Error() string {
	s := fmt.Sprintf("feature: no %s: %s (requirement: %s)", e.Test.Name, e.Detail, e.Test.Requirement)
	if e.Test.Remedy != "" {
		s += "; try: " + e.Test.Remedy
	}
	return s
}

// Is makes every MissingError an ErrNotSupported.
func (e *MissingError) Is(target error) bool { return target == ErrNotSupported }

// missing makes a probe's answer no; Check completes it with the Test.
func missing(format string, args ...any) error {
	return &MissingError{Detail: fmt.Sprintf(format, args...)}
}

// UnknownError is the third answer: the probe itself failed.
type UnknownError struct {
	Test  Test
	Cause error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("feature: could not tell whether this machine has %s: %v", e.Test.Name, e.Cause)
}

func (e *UnknownError) Unwrap() error { return e.Cause }
