package coord

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

const (
	MaxKey      = 512     // bytes
	MaxValue    = 1 << 20 // bytes
	MinTTL      = 100 * time.Millisecond
	MaxTTL      = 24 * time.Hour
	QueueEvents = 1024 // of one watcher
)

var (
	ErrNotFound  = errors.New("coord: no such key")
	ErrConflict  = errors.New("coord: the key has changed since that revision")
	ErrNoLease   = errors.New("coord: the lease has ended or never was")
	ErrCompacted = errors.New("coord: events from that revision are forgotten; list again and watch from there")
	ErrLagging   = errors.New("coord: the watcher did not keep up; list again and watch from there")
	ErrClosed    = errors.New("coord: closed")
	ErrTooLarge  = errors.New("coord: too large")
	// ErrUnavailable: the coordinator cannot be reached. A write that fails so
	// may have happened.
	ErrUnavailable = errors.New("coord: the coordinator cannot be reached")
)

// LeaseID names a lease; 0 means none.
type LeaseID int64

// KV is one key.
type KV struct {
	Key      string  `json:"key"`
	Value    []byte  `json:"value,omitempty"`
	Revision int64   `json:"revision"` // of its last change
	Lease    LeaseID `json:"lease,omitempty"`
}

// Event is one change. A deletion has no value; its Revision is its own.
type Event struct {
	KV
	Deleted bool `json:"deleted,omitempty"`
}

// Coordinator is the store. Every change raises the revision of the whole
// store by one (the end of a lease: one for each of its keys), so revisions
// order all changes. Values belong to the callee once given and must not be
// changed once received.
type Coordinator interface {
	// Get is one key, or ErrNotFound.
	Get(ctx context.Context, key string) (KV, error)
	// List is all keys with the prefix in key order, and the store's revision
	// at that moment.
	List(ctx context.Context, prefix string) ([]KV, int64, error)
	// Put sets a key, tied to a lease unless that is 0.
	Put(ctx context.Context, key string, value []byte, lease LeaseID) (int64, error)
	// CompareAndPut is Put if the key's revision is still what the caller
	// says (0: the key does not exist), else ErrConflict.
	CompareAndPut(ctx context.Context, key string, value []byte, revision int64, lease LeaseID) (int64, error)
	// Delete removes a key, or returns ErrNotFound.
	Delete(ctx context.Context, key string) (int64, error)
	// Watch yields all changes under prefix from a revision on, the past
	// included while it is remembered (else ErrCompacted). 0 means from now.
	// The watch ends with ctx.
	Watch(ctx context.Context, prefix string, from int64) (Watcher, error)

	// Grant makes a lease that ends ttl after the last KeepAlive.
	Grant(ctx context.Context, ttl time.Duration) (LeaseID, error)
	KeepAlive(ctx context.Context, lease LeaseID) error
	// Revoke ends a lease now and removes its keys.
	Revoke(ctx context.Context, lease LeaseID) error

	// Close ends all watches of this Coordinator. Leases stay until they end.
	Close() error
}

// Watcher is one watch.
type Watcher interface {
	// Events is closed when the watch ends; Err then says why.
	Events() <-chan Event
	Err() error
	Close()
}

// CheckKey refuses keys that no implementation takes.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKey {
		return fmt.Errorf("%w: key of %d bytes, want 1 to %d", ErrTooLarge, len(key), MaxKey)
	}
	if !utf8.ValidString(key) {
		return fmt.Errorf("coord: key %q is not UTF-8", key)
	}
	return nil
}

// CheckValue refuses values that no implementation takes.
func CheckValue(key string, value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("%w: value of %d bytes for %s, at most %d", ErrTooLarge, len(value), key, MaxValue)
	}
	return nil
}

// CheckTTL refuses leases too short to keep or too long to matter.
func CheckTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return fmt.Errorf("coord: lease of %v, want %v to %v", ttl, MinTTL, MaxTTL)
	}
	return nil
}
