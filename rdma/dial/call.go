package dial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"psrt/rdma/wire"
)

const (
	maxCall      = 16 << 20 // bytes of a request or response
	maxPending   = 256      // calls out
	maxWaiting   = 256      // calls in, not yet taken by Serve
	maxHandlers  = 64       // calls in, being handled
	callPatience = 30 * time.Second
)

type requestMsg struct {
	ID     uint64          `json:"id"`
	Method string          `json:"method"`
	Body   json.RawMessage `json:"body,omitempty"`
}

type responseMsg struct {
	ID    uint64          `json:"id"`
	Error string          `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
}

// CallError is an error that the peer's handler returned.
type CallError struct {
	Method, Peer, Text string
}

func (e *CallError) Error() string {
	return fmt.Sprintf("%s at %s: %s", e.Method, e.Peer, e.Text)
}

// Call asks the peer's handler and waits for its answer, until ctx ends or, if
// ctx has no deadline, for 30 s. req and resp may be nil. Any number of
// goroutines may call.
func (c *Conn) Call(ctx context.Context, method string, req, resp any) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callPatience)
		defer cancel()
	}
	fail := func(err error) error { return fmt.Errorf("dial: call %s at %s: %w", method, c.Peer, err) }
	var body json.RawMessage
	if req != nil {
		var err error
		if body, err = json.Marshal(req); err != nil {
			return fail(err)
		}
	}
	id, answer, err := c.register()
	if err != nil {
		return fail(err)
	}
	defer c.unregister(id)
	if err := c.write(kindRequest, requestMsg{ID: id, Method: method, Body: body}); err != nil {
		return fail(err)
	}
	select {
	case r := <-answer:
		if r.Error != "" {
			return &CallError{Method: method, Peer: c.Peer, Text: r.Error}
		}
		if resp == nil {
			return nil
		}
		if err := json.Unmarshal(r.Body, resp); err != nil {
			return fail(fmt.Errorf("response: %w", err))
		}
		return nil
	case <-ctx.Done():
		return fail(context.Cause(ctx))
	case <-c.done:
		return fail(c.Err())
	}
}

func (c *Conn) register() (uint64, chan responseMsg, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, nil, c.err
	}
	if len(c.pending) >= maxPending {
		return 0, nil, fmt.Errorf("%d calls are waiting already: the peer is overloaded or stuck", maxPending)
	}
	c.nextID++
	answer := make(chan responseMsg, 1)
	c.pending[c.nextID] = answer
	return c.nextID, answer, nil
}

func (c *Conn) unregister(id uint64) {
	c.mu.Lock()
	delete(c.pending, id)
	c.mu.Unlock()
}

// write sends one frame. What is too long is the caller's error; a connection
// on which half a frame was written is dead.
func (c *Conn) write(kind uint8, msg any) error {
	f, err := wire.NewJSON(kind, msg, maxCall)
	if err != nil {
		return err
	}
	defer f.Free()
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err = f.Write(c.Control, time.Now().Add(c.host.cfg.StepTimeout)); err != nil {
		c.end(fmt.Errorf("dial: control connection to %s: %w", c.Peer, err))
	}
	return err
}

// read is the connection's reader goroutine.
func (c *Conn) read() {
	for {
		err := c.readOne()
		if err == io.EOF {
			err = fmt.Errorf("the peer closed it or died: %w", err)
		}
		if err != nil {
			c.end(fmt.Errorf("dial: control connection to %s: %w", c.Peer, err))
			return
		}
	}
}

func (c *Conn) readOne() error {
	return wire.ReadShort(c.Control, maxCall, time.Time{}, c.take)
}

// take handles a frame; what of it stays is copied by its decoding.
func (c *Conn) take(h wire.Header, b []byte) error {
	switch h.Kind {
	case kindRequest:
		var r requestMsg
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("%w: request: %w", wire.ErrFrame, err)
		}
		select {
		case c.requests <- r:
			return nil
		default:
			return c.write(kindResponse, responseMsg{ID: r.ID, Error: fmt.Sprintf("%d calls are waiting already: the process is overloaded or stuck", maxWaiting)})
		}
	case kindResponse:
		var r responseMsg
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("%w: response: %w", wire.ErrFrame, err)
		}
		c.mu.Lock()
		answer := c.pending[r.ID]
		delete(c.pending, r.ID)
		c.mu.Unlock()
		if answer != nil { // else the caller gave up before
			answer <- r
		}
		return nil
	}
	return fmt.Errorf("%w: kind %d after the handshake", wire.ErrFrame, h.Kind)
}

// Handler answers one call. ctx ends with the connection.
type Handler func(ctx context.Context, method string, body json.RawMessage) (any, error)

// Serve answers the peer's calls, at most maxHandlers at a time and in no
// particular order, until ctx or the connection ends. It returns when the
// last handler has, with Err or ctx's error.
func (c *Conn) Serve(ctx context.Context, handle Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, maxHandlers)
	for {
		select {
		case <-c.done:
			cancel()
			return c.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		case slots <- struct{}{}:
		}
		select {
		case <-c.done:
			cancel()
			return c.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		case r := <-c.requests:
			wg.Go(func() {
				defer func() { <-slots }()
				c.answer(ctx, handle, r)
			})
		}
	}
}

func (c *Conn) answer(ctx context.Context, handle Handler, r requestMsg) {
	result, err := handle(ctx, r.Method, r.Body)
	resp := responseMsg{ID: r.ID, Error: errorText(err)}
	if err == nil {
		if resp.Body, err = json.Marshal(result); err != nil {
			resp = responseMsg{ID: r.ID, Error: err.Error()}
		}
	}
	if err := c.write(kindResponse, resp); errors.Is(err, wire.ErrFrame) {
		_ = c.write(kindResponse, responseMsg{ID: r.ID, Error: err.Error()})
	}
}
