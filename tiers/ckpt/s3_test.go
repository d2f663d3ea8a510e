package ckpt

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"psrt/tiers/ckpt/s3"
)

// store is an S3 server in this process with a bucket.
type store struct {
	url   string // of a history in it
	calls atomic.Int64
	// refuse answers requests that change something from this number on.
	refuse atomic.Int64
}

func newStore(t *testing.T) *store {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "tester")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	backend := s3mem.New()
	check(t, backend.CreateBucket("models"))
	s := &store{}
	s.refuse.Store(1 << 62)
	inner := gofakes3.New(backend).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && s.calls.Add(1) > s.refuse.Load() {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>quota</Message></Error>`)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s.url = "s3://models/a/history?endpoint=" + url.QueryEscape(srv.URL) + "&region=us-east-1"
	return s
}

// TestHistoryInAStore holds a history in an object store to a model in memory.
func TestHistoryInAStore(t *testing.T) {
	s, w := newStore(t), newTwin(seed(t))
	if _, err := Open(s.url); !errors.Is(err, ErrNoModel) {
		t.Errorf("an empty store: %v", err)
	}
	was := map[uint64]*twin{}
	for i := range 6 {
		h, err := OpenHistory(background, s.url, HistoryOptions{Keep: 2, Run: oneRun})
		check(t, err)
		w.train(40)
		m, err := w.commit(h, NextOptions{Delta: i%3 > 0}, 1+i%3)
		check(t, err)
		check(t, h.Trouble())
		check(t, h.Close())
		was[m.Number] = w.copy()
	}
	for n, then := range was {
		m, err := OpenAt(background, s.url, n)
		check(t, err)
		check(t, then.same(m, 2))
		if !strings.HasPrefix(m.Dir(), "s3://models/a/history") || strings.Contains(m.Dir(), "endpoint") {
			t.Errorf("it calls itself %s", m.Dir())
		}
	}
	wellVerified(t, s.url)
	h, err := OpenHistory(background, s.url, HistoryOptions{Keep: 1, Run: oneRun})
	check(t, err)
	_, err = h.Merge(background, 0, 2)
	check(t, err)
	check(t, h.Trouble())
	m, err := Open(s.url)
	check(t, err)
	check(t, w.same(m, 2))
	_, err = OpenHistory(background, s.url, HistoryOptions{})
	var held *LockedError
	if !errors.As(err, &held) || held.PID != os.Getpid() {
		t.Errorf("a second writer: %v", err)
	}
	check(t, h.Close())
	list, err := List(background, s.url)
	check(t, err)
	if len(list) != 1 || list[0].Number != m.Number {
		t.Errorf("retiring left %v", list)
	}
	f, err := s3.Open(background, s.url)
	check(t, err)
	left, err := f.List(background, "")
	check(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	if want := []string{headName, manifestFile(m.Number), m.Generation}; !slices.Equal(names, want) {
		t.Errorf("the store holds %v, want %v", names, want)
	}
}

// TestStoreRefuses makes the store refuse from each changing request on: what
// was acknowledged stays, and the next writer goes on.
func TestStoreRefuses(t *testing.T) {
	for k := int64(0); ; k += 3 {
		s, w := newStore(t), newTwin(9)
		h, err := OpenHistory(background, s.url, HistoryOptions{Keep: 1, Run: oneRun})
		check(t, err)
		w.train(20)
		_, err = w.commit(h, NextOptions{}, 2)
		check(t, err)
		acked := w.copy()
		s.refuse.Store(s.calls.Load() + k)
		w.train(20)
		_, err = w.commit(h, NextOptions{}, 2)
		trouble := h.Trouble()
		if err == nil {
			acked = w.copy()
		}
		done := s.calls.Load() <= s.refuse.Load()
		s.refuse.Store(1 << 62)
		check(t, h.Close())
		m, e := Open(s.url)
		check(t, e)
		if e := acked.same(m, 2); e != nil {
			t.Fatalf("refused from change %d on (%v): %v", k, err, e)
		}
		if done {
			check(t, errors.Join(err, trouble))
			if k < 6 {
				t.Errorf("only %d changes", k)
			}
			return
		}
		if e := errors.Join(err, trouble); e == nil || !strings.Contains(e.Error(), "AWS_ACCESS_KEY_ID") || !strings.Contains(e.Error(), "s3://models") {
			t.Errorf("refused from change %d on: %v", k, e)
		}
		h, e = OpenHistory(background, s.url, HistoryOptions{Keep: 1, Run: oneRun})
		check(t, e)
		_, e = w.commit(h, NextOptions{}, 1)
		check(t, errors.Join(e, h.Trouble(), h.Close()))
		wellVerified(t, s.url)
	}
}

// TestDeadWritersLock: the lock of a process of this host that is dead is taken
// over at once, and its unfinished parts are removed.
func TestDeadWritersLock(t *testing.T) {
	s := newStore(t)
	c := childOf(t, "hold", s.url)
	in, err := c.StdinPipe()
	check(t, err)
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	if line := make([]byte, 5); true {
		_, err = out.Read(line)
		if check(t, err); string(line) != "held\n" {
			t.Fatalf("the child says %q", line)
		}
	}
	_, err = OpenHistory(background, s.url, HistoryOptions{})
	var held *LockedError
	if !errors.As(err, &held) || held.PID != c.Process.Pid {
		t.Errorf("a second process: %v, want one that names %d", err, c.Process.Pid)
	}
	check(t, c.Process.Kill())
	_ = c.Wait() // it was killed
	_ = in.Close()
	h, err := OpenHistory(background, s.url, HistoryOptions{})
	check(t, err)
	check(t, h.Close())
}

// TestLargeObject goes up in several pieces and comes back.
func TestLargeObject(t *testing.T) {
	s := newStore(t)
	f, err := s3.Open(background, s.url)
	check(t, err)
	up, err := f.Create(background, "x/large")
	check(t, err)
	line := make([]byte, 1<<20)
	for i := range s3.PieceBytes>>20 + 3 {
		for j := range line {
			line[j] = byte(i * (j + 1))
		}
		_, err := up.Write(line)
		check(t, err)
	}
	check(t, up.Close())
	r, err := f.Open(background, "x/large")
	check(t, err)
	if r.Size() != s3.PieceBytes+3<<20 {
		t.Fatalf("%d bytes", r.Size())
	}
	got := make([]byte, 100)
	for i := range int64(s3.PieceBytes>>20 + 3) {
		if n, err := r.ReadAt(got, i<<20+7); n != 100 || err != nil || got[5] != byte(i*13) {
			t.Fatalf("byte %d: %d bytes, %v, %v", i<<20+7, n, err, got[5])
		}
	}
	aborted, err := f.Create(background, "x/aborted")
	check(t, err)
	_, err = aborted.Write(line)
	check(t, err)
	aborted.Abort()
	list, err := f.List(background, "x")
	check(t, err)
	if len(list) != 1 || list[0].Name != "large" {
		t.Errorf("there are %v", list)
	}
}

func TestLocations(t *testing.T) {
	for _, bad := range []string{"s3://", "s3://user:pass@bucket/x", "s3://b/x?endpiont=y", "s3://b?endpoint=ftp://x", "s3://b?endpoint=http://x/path", "s3://%zz"} {
		if _, err := Open(bad); err == nil || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
