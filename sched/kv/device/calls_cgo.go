//go:build cgo

package device

import (
	"time"

	"psrt/sched/kv"
)

// Into has pull fill memory of the host, and copies it to the device: n floats. When
// it returns the copy is on the caller's stream. limit bounds waiting for streams.
func (s *Staging) Into(p Place, n int, limit time.Duration, pull func([]float32) error) error {
	if n == 0 {
		return pull(nil)
	}
	end := s.until(limit)
	if is, err := s.straight(p, n, end, pull, true); is {
		return err
	}
	r, err := s.take(p, n, end)
	if err != nil {
		return err
	}
	defer s.give(r)
	if err := pull(r.floats[:n]); err != nil {
		return err
	}
	return s.in(r, p, n, end)
}

// From copies n floats from the device, waiting for the caller's stream at most as
// long as the call may, and has push send them.
func (s *Staging) From(p Place, n int, limit time.Duration, push func([]float32) error) error {
	if n == 0 {
		return push(nil)
	}
	end := s.until(limit)
	if is, err := s.straight(p, n, end, push, false); is {
		return err
	}
	r, err := s.take(p, n, end)
	if err != nil {
		return err
	}
	defer s.give(r)
	if err := s.fetch(r, p, n, end); err != nil {
		return err
	}
	return push(r.floats[:n])
}

// Request is an asynchronous call with a device.
type Request struct {
	done chan struct{}
	err  error
}

// Done is closed when the request is done; Err then tells how it went.
func (r *Request) Done() <-chan struct{} { return r.done }

// Err is valid when Done is closed.
func (r *Request) Err() error { return r.err }

func (r *Request) end(err error, notify func(error)) {
	r.err = err
	close(r.done)
	if notify != nil {
		notify(err)
	}
}

// Start begins a request of sched/kv on memory of the host, and has it notify.
type Start func(staging []float32, notify func(error)) (*kv.Request, error)

// perThread is the handle of a stream that every thread has its own of (CU_STREAM_PER_THREAD).
const perThread = 2

// IntoAsync is Into that returns when start has. The copy is given to the stream by another
// thread than the caller's: one that is the thread's own cannot be meant.
func (s *Staging) IntoAsync(p Place, n int, limit time.Duration, notify func(error), start Start) (*Request, error) {
	q := &Request{done: make(chan struct{})}
	if n == 0 {
		_, err := start(nil, func(err error) { q.end(err, notify) })
		return q, err
	}
	if p.Stream == perThread {
		return nil, errorf(kv.Invalid, "device: an asynchronous pull to the stream with handle %d (cudaStreamPerThread): a thread of the library gives it the copy, whose own another stream is; name a stream that you have made, or 0, or pull without _async", perThread)
	}
	end := s.until(limit)
	if is, err := s.straightAsync(p, n, end, q, notify, start); is {
		if err != nil {
			return nil, err
		}
		return q, nil
	}
	r, err := s.take(p, n, end)
	if err != nil {
		return nil, err
	}
	_, err = start(r.floats[:n], func(err error) {
		finish := func() {
			if err == nil {
				err = s.in(r, p, n, end)
			}
			s.give(r)
			q.end(err, notify)
		}
		if err != nil {
			finish()
			return
		}
		// A copy may wait for the stream: of memory that is not pinned until the stream comes
		// to it, of any where the driver has no room for more work on it. Not here, where
		// others' requests end.
		s.c.Help(finish)
	})
	if err != nil {
		s.give(r)
		return nil, err
	}
	return q, nil
}

// FromAsync is From that returns when the gradients are out of the device, always by
// staging, and start has begun.
func (s *Staging) FromAsync(p Place, n int, limit time.Duration, notify func(error), start Start) (*Request, error) {
	q := &Request{done: make(chan struct{})}
	if n == 0 {
		_, err := start(nil, func(err error) { q.end(err, notify) })
		return q, err
	}
	end := s.until(limit)
	r, err := s.take(p, n, end)
	if err != nil {
		return nil, err
	}
	if err = s.fetch(r, p, n, end); err == nil {
		_, err = start(r.floats[:n], func(err error) {
			s.give(r)
			q.end(err, notify)
		})
	}
	if err != nil {
		s.give(r)
		return nil, err
	}
	return q, nil
}
