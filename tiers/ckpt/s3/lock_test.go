package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"

	"psrt/tiers/ckpt/files"
)

// server is an S3 server in this process; wrap may change what it hears.
func server(t *testing.T, wrap func(*http.Request)) *Store {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "tester")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	inner := gofakes3.New(backend).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wrap != nil {
			wrap(r)
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s, err := Open(context.Background(), "s3://bucket/p?region=us-east-1&endpoint="+url.QueryEscape(srv.URL))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLostLock: a writer whose lock another took over puts and removes nothing
// more, and leaves the other's lock alone.
func TestLostLock(t *testing.T) {
	ctx, s := context.Background(), server(t, nil)
	held, err := s.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l := held.(*lock)
	for range 3 {
		if err := l.beat(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(ctx, "x", []byte("1"), true); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ctx, "x", []byte("2"), true); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second PUT of what must be absent: %v", err)
	}
	if _, err := s.put(ctx, files.LockName, []byte(`{"host":"elsewhere","pid":1}`), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := l.beat(ctx); err == nil || !strings.Contains(err.Error(), "taken by another process") {
		t.Errorf("a lock that is lost: %v", err)
	}
	if err := s.Put(ctx, "y", nil, false); err == nil || !strings.Contains(err.Error(), "taken by another process") {
		t.Errorf("a PUT without the lock: %v", err)
	}
	if err := s.Remove(ctx, "x"); err == nil {
		t.Error("a removal without the lock")
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}
	if h, _, err := s.holder(ctx); err != nil || h.Host != "elsewhere" {
		t.Errorf("the other's lock is now %+v, %v", h, err)
	}
}

// TestForeignLock: another host's lock is respected while it is renewed, and
// taken over when it stands still.
func TestForeignLock(t *testing.T) {
	ctx, s := context.Background(), server(t, nil)
	s.lease = 24 * time.Second // who renews may have no core for seconds
	foreign := func(renewed int) {
		body := fmt.Appendf(nil, `{"host":"elsewhere","pid":7,"renewed":%d}`, renewed)
		if _, err := s.put(ctx, files.LockName, body, minio.PutObjectOptions{}); err != nil {
			t.Error(err)
		}
	}
	foreign(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				foreign(i)
			}
		}
	}()
	_, err := s.Lock(ctx)
	close(stop)
	<-done
	var held *files.LockedError
	if !errors.As(err, &held) || held.PID != 7 || held.Host != "elsewhere" {
		t.Errorf("a lock that is renewed: %v", err)
	}
	s.lease = 2 * time.Second
	l, err := s.Lock(ctx)
	if err != nil {
		t.Fatalf("a lock that stands still: %v", err)
	}
	if h, _, err := s.holder(ctx); err != nil || h.Host == "elsewhere" {
		t.Errorf("the lock is %+v's, %v", h, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := s.holder(ctx); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock that was given back: %v", err)
	}
}

// TestStoreWithoutConditions: a server that ignores If-None-Match cannot keep
// two writers apart, and is refused before anything is written.
func TestStoreWithoutConditions(t *testing.T) {
	s := server(t, func(r *http.Request) { r.Header.Del("If-None-Match") })
	if _, err := s.Lock(context.Background()); err == nil || !strings.Contains(err.Error(), "If-None-Match") {
		t.Errorf("a lock in it: %v", err)
	}
	list, err := s.List(context.Background(), "")
	if err != nil || len(list) != 0 {
		t.Errorf("it holds %v, %v", list, err)
	}
}
