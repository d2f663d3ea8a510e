//go:build cgo

package main

// #include "calls.h"
import "C"

import "unsafe"

// refusedOf is where psrt_last_refused finds the rows refused of a thread's last push. A
// call that pushes begins with none.
func refusedOf(e *C.psrt_text) *uint64 {
	e.refused = 0
	return (*uint64)(unsafe.Pointer(&e.refused))
}

// counted is an asynchronous push, with the rows that were refused of it.
type counted struct {
	pending
	refused *uint64 // valid when the push is done
}

// refusedRows is the count of a request that is done; 0 of a pull.
func refusedRows(r pending) uint64 {
	if c, ok := r.(counted); ok {
		return *c.refused
	}
	return 0
}

// countRefused has an asynchronous push count them.
func countRefused(refused *uint64, r pending, err error) (pending, error) {
	if err != nil {
		return nil, err
	}
	return counted{r, refused}, nil
}
