package remote

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"psrt/sched/coord"
)

const (
	// MaxFrame holds the largest value in base64 with room for all else.
	MaxFrame   = 2 << 20
	MaxConns   = 1 << 12
	MaxWatches = 256     // of a connection
	MaxCalls   = 1 << 10 // of a client

	PingEvery    = 5 * time.Second
	SilentFor    = 30 * time.Second
	writeTimeout = 10 * time.Second
	// callTimeout bounds a call whose context has no deadline, and what a
	// client may ask of a server.
	callTimeout = 30 * time.Second

	batchBytes = 512 << 10 // of values in one frame of a list or of events
	batchItems = 1024
)

type op string

const (
	opGet       op = "get"
	opList      op = "list"
	opPut       op = "put"
	opCompare   op = "compare-and-put"
	opDelete    op = "delete"
	opWatch     op = "watch"
	opUnwatch   op = "unwatch" // no answer
	opGrant     op = "grant"
	opKeepAlive op = "keep-alive"
	opRevoke    op = "revoke"
	opPing      op = "ping"
)

// request is what a client sends. ID names the call, and the watch it makes.
type request struct {
	ID            uint64        `json:"id"`
	Op            op            `json:"op"`
	Key           string        `json:"key,omitempty"` // or prefix
	Value         []byte        `json:"value,omitempty"`
	Revision      int64         `json:"revision,omitempty"`
	Lease         coord.LeaseID `json:"lease,omitempty"`
	TTLMicros     int64         `json:"ttl_micros,omitempty"`
	TimeoutMicros int64         `json:"timeout_micros,omitempty"`
}

// response is what a server sends: the answer to call ID, or (Watch set) news
// of the watch that call made.
type response struct {
	ID       uint64        `json:"id"`
	Watch    bool          `json:"watch,omitempty"`
	More     bool          `json:"more,omitempty"` // another frame of the same answer follows
	Ended    bool          `json:"ended,omitempty"`
	Code     string        `json:"code,omitempty"` // of an error
	Error    string        `json:"error,omitempty"`
	Revision int64         `json:"revision,omitempty"`
	Lease    coord.LeaseID `json:"lease,omitempty"`
	KVs      []coord.KV    `json:"kvs,omitempty"`
	Events   []coord.Event `json:"events,omitempty"`
}

// codes are the errors that keep their identity on the way.
var codes = [...]struct {
	code string
	err  error
}{
	{"not-found", coord.ErrNotFound},
	{"conflict", coord.ErrConflict},
	{"no-lease", coord.ErrNoLease},
	{"compacted", coord.ErrCompacted},
	{"lagging", coord.ErrLagging},
	{"closed", coord.ErrClosed},
	{"too-large", coord.ErrTooLarge},
	{"unavailable", coord.ErrUnavailable},
}

func (r *response) setError(err error) {
	r.Error, r.Code = err.Error(), "other"
	if errors.Is(err, context.DeadlineExceeded) { // of a store behind that is away
		r.Code = "unavailable"
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			r.Code = c.code
		}
	}
}

// err is the error a response carries, or nil.
func (r *response) err() error {
	if r.Code == "" {
		return nil
	}
	for _, c := range codes {
		if r.Code == c.code {
			return &remoteError{r.Error, c.err}
		}
	}
	return &remoteError{r.Error, nil}
}

// remoteError has the server's words and the sentinel they stand for.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

// StoreAway says whether an error is the answer of a server whose own store does not answer;
// false where it is the server that cannot be reached.
func StoreAway(err error) bool {
	var e *remoteError
	return errors.As(err, &e) && e.is == coord.ErrUnavailable
}

// encode makes a frame.
func encode(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("coord/remote: %w", err)
	}
	if len(body) > MaxFrame {
		return nil, fmt.Errorf("%w: message of %d bytes, at most %d", coord.ErrTooLarge, len(body), MaxFrame)
	}
	frame := make([]byte, 4+len(body))
	binary.LittleEndian.PutUint32(frame, uint32(len(body)))
	copy(frame[4:], body)
	return frame, nil
}

// decode reads one frame into v. buf is reused from call to call.
func decode(r *bufio.Reader, buf *[]byte, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n == 0 || n > MaxFrame {
		return fmt.Errorf("coord/remote: message of %d bytes, want 1 to %d; does the peer run the same psrt version?", n, MaxFrame)
	}
	if uint32(cap(*buf)) < n {
		*buf = make([]byte, n)
	}
	b := (*buf)[:n]
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("coord/remote: message is not what it should be: %w", err)
	}
	return nil
}
