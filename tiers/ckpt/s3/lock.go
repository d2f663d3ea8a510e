package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"

	"psrt/tiers/ckpt/files"
)

// LeaseTime is how long a lock must stand still to count as left behind. Its
// holder renews it 4 times in that time, others look 12 times.
const LeaseTime = time.Minute

// holder is the lock object.
type holder struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Renewed uint64 `json:"renewed"`
	Nonce   int64  `json:"nonce"` // tells apart two locks of one process
}

type lock struct {
	s    *Store
	stop chan struct{}
	done chan struct{}
	once sync.Once

	mu   sync.Mutex
	me   holder
	etag string
	lost error
}

// mine fails once the lock has been taken by another. Without a lock at all it
// lets pass: tools remove and put only under one.
func (s *Store) mine() error {
	s.mu.Lock()
	l := s.lock
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (s *Store) Lock(ctx context.Context) (files.Lock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	l := &lock{s: s, stop: make(chan struct{}), done: make(chan struct{}), me: holder{Host: host, PID: os.Getpid(), Nonce: time.Now().UnixNano()}}
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	// A store that lets a second PUT pass would let two jobs commit one
	// generation.
	var absent minio.PutObjectOptions
	absent.SetMatchETagExcept("*")
	if _, err := s.put(ctx, files.LockName, l.body(), absent); !errors.Is(err, fs.ErrExist) {
		return nil, errors.Join(fmt.Errorf("s3: %s: the store does not honour If-None-Match (%v) and cannot keep two writers apart; use one that does, or a directory", s.Path(""), err),
			s.core.RemoveObject(ctx, s.bucket, s.key(files.LockName), minio.RemoveObjectOptions{}))
	}
	s.mu.Lock()
	s.lock = l
	s.mu.Unlock()
	s.sweep(ctx)
	go l.renew(context.WithoutCancel(ctx))
	return l, nil
}

func (l *lock) body() []byte {
	b, err := json.Marshal(l.me)
	if err != nil {
		panic(err) // numbers and a string only
	}
	return b
}

// take makes the object, or takes over one that nobody renews.
func (l *lock) take(ctx context.Context) error {
	s, begun := l.s, time.Now()
	var seen string // ETag when first seen
	for {
		var o minio.PutObjectOptions
		o.SetMatchETagExcept("*")
		etag, err := s.put(ctx, files.LockName, l.body(), o)
		if err == nil {
			l.etag = etag
			return nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		other, etag, err := s.holder(ctx)
		if errors.Is(err, fs.ErrNotExist) {
			continue // given back this moment
		}
		if err != nil {
			return err
		}
		same, dead := other.Host == l.me.Host, syscall.Kill(other.PID, 0) == syscall.ESRCH
		switch {
		case same && !dead, seen != "" && etag != seen:
			return &files.LockedError{Path: s.Path(""), PID: other.PID, Host: other.Host}
		case same && dead, time.Since(begun) > s.lease:
			var o minio.PutObjectOptions
			o.SetMatchETag(etag)
			if l.etag, err = s.put(ctx, files.LockName, l.body(), o); errors.Is(err, fs.ErrExist) {
				return &files.LockedError{Path: s.Path(""), PID: other.PID, Host: other.Host} // another was faster
			}
			return err
		}
		seen = etag
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(s.lease / 12):
		}
	}
}

func (s *Store) holder(ctx context.Context) (h holder, etag string, err error) {
	r, err := s.Open(ctx, files.LockName)
	if err != nil {
		return h, "", err
	}
	b, err := files.ReadAll(r, 4096)
	if err != nil {
		return h, "", err
	}
	if err := json.Unmarshal(b, &h); err != nil || h.PID <= 0 {
		return h, "", fmt.Errorf("s3: %s is not a lock that psrt wrote; remove it if no job writes there", s.Path(files.LockName))
	}
	return h, r.(*object).etag, nil
}

// renew shows that the process lives.
func (l *lock) renew(ctx context.Context) {
	defer close(l.done)
	t := time.NewTicker(l.s.lease / 4)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-t.C:
		}
		if l.beat(ctx) != nil {
			return
		}
	}
}

// beat renews once. A failure to reach the store is tried again by the next:
// only another's lock ends ours.
func (l *lock) beat(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.me.Renewed++
	var o minio.PutObjectOptions
	o.SetMatchETag(l.etag)
	etag, err := l.s.put(ctx, files.LockName, l.body(), o)
	switch {
	case err == nil:
		l.etag = etag
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		l.lost = fmt.Errorf("s3: the lock of %s was taken by another process while this one did not answer for %v; it writes nothing more", l.s.Path(""), l.s.lease)
	}
	return l.lost
}

func (l *lock) Close() error {
	var err error
	l.once.Do(func() {
		close(l.stop)
		<-l.done
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.lost != nil {
			return // it is another's now
		}
		l.lost = fmt.Errorf("s3: the lock of %s was given back: %w", l.s.Path(""), fs.ErrClosed)
		ctx, cancel := within(context.Background())
		defer cancel()
		err = meaning(l.s.core.RemoveObject(ctx, l.s.bucket, l.s.key(files.LockName), minio.RemoveObjectOptions{}))
	})
	return err
}

// sweep removes uploads that a crash left unfinished: they cost money and
// nobody sees them. What cannot be removed waits for the next time.
func (s *Store) sweep(ctx context.Context) {
	ctx, cancel := within(ctx)
	defer cancel()
	for u := range s.core.Client.ListIncompleteUploads(ctx, s.bucket, s.prefix, true) {
		if u.Err != nil {
			return
		}
		_ = s.core.AbortMultipartUpload(ctx, s.bucket, u.Key, u.UploadID)
	}
}
