//go:build cgo

package main

// #include "calls.h"
import "C"

// tellRefused stores for psrt_last_refused the rows refused of a push that is done; nil: the
// call was no push.
func tellRefused(e *C.psrt_text, refused *uint64) {
	if refused != nil {
		e.refused = C.uint64_t(*refused)
	}
}

// counted is an asynchronous call, with the rows that were refused of it.
type counted struct {
	pending
	refused *uint64 // valid when the push is done; nil: the call is no push
}

// Cancel gives up a call that can be given up.
func (c counted) Cancel() {
	if r, ok := c.pending.(interface{ Cancel() }); ok {
		r.Cancel()
	}
}

func (c counted) Refused() *uint64 { return c.refused }

// refusedRows is the count of a request that is done; nil: it is no push.
func refusedRows(r pending) *uint64 {
	if c, ok := r.(interface{ Refused() *uint64 }); ok {
		return c.Refused()
	}
	return nil
}

// countRefused has an asynchronous push count them.
func countRefused(refused *uint64, r pending, err error) (pending, error) {
	if err != nil {
		return nil, err
	}
	return counted{r, refused}, nil
}
