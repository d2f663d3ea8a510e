//go:build cgo

package pmix

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo LDFLAGS: -ldl -lpthread
// #include "pmix.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"fmt"
	"time"
	"unsafe"
)

// Client is this process's connection to its process manager. There can be one
// in a process.
type Client struct {
	Rank, Size int
	Space      string // the job's name
}

func failed(call string, status C.int) error {
	if status == 0 {
		return nil
	}
	return &Error{Call: call, Status: int(status), Text: C.GoString(C.psrt_pmix_status(status))}
}

// apart runs a call that cannot be cancelled on a thread of its own. When ctx
// ends first the thread is left behind: its end comes with the library's own
// timeout, or the process's.
func apart[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := f()
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// seconds is what is left of ctx, rounded up, for the library.
func seconds(ctx context.Context) C.int {
	d, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return C.int(max(1, (time.Until(d)+time.Second-1)/time.Second))
}

// Open connects to the process manager.
func Open(ctx context.Context) (*Client, error) {
	return apart(ctx, func() (*Client, error) {
		var space, why [256]C.char
		var rank, size C.uint32_t
		switch status := C.psrt_pmix_init(&space[0], &rank, &why[0], C.size_t(len(why))); status {
		case 0:
		case C.PSRT_PMIX_NO_LIBRARY:
			return nil, fmt.Errorf("%w: %s", ErrNotSupported, C.GoString(&why[0]))
		default:
			return nil, failed("Init", status)
		}
		if err := failed("Get of the number of ranks", C.psrt_pmix_job_size(&size)); err != nil {
			return nil, err
		}
		return &Client{Rank: int(rank), Size: int(size), Space: C.GoString(&space[0])}, nil
	})
}

// Put shows a value to the others, after the next Fence.
func (c *Client) Put(key string, value []byte) error {
	if err := check(key, value); err != nil {
		return err
	}
	k := C.CString(key)
	defer C.free(unsafe.Pointer(k))
	return failed("Put", C.psrt_pmix_put(k, unsafe.Pointer(&value[0]), C.size_t(len(value))))
}

// Fence waits until every process of the job has come to it.
func (c *Client) Fence(ctx context.Context) error {
	limit := seconds(ctx)
	_, err := apart(ctx, func() (struct{}, error) { return struct{}{}, failed("Fence", C.psrt_pmix_fence(limit)) })
	return err
}

// Get is what a process has put.
func (c *Client) Get(ctx context.Context, rank int, key string) ([]byte, error) {
	limit := seconds(ctx)
	return apart(ctx, func() ([]byte, error) {
		k := C.CString(key)
		defer C.free(unsafe.Pointer(k))
		buf := make([]byte, MaxValue)
		var n C.size_t
		if err := failed("Get", C.psrt_pmix_get(C.uint32_t(rank), k, limit, unsafe.Pointer(&buf[0]), MaxValue, &n)); err != nil {
			return nil, err
		}
		return buf[:n], nil
	})
}

// Close leaves the process manager's care for values; it goes on to watch over
// the process.
func (c *Client) Close(ctx context.Context) error {
	_, err := apart(ctx, func() (struct{}, error) { return struct{}{}, failed("Finalize", C.psrt_pmix_finalize()) })
	return err
}
