package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"psrt/tiers/ckpt/s3"
)

// storeBehind is a store whose requests pass through pass first, which returns
// whether it has dealt with one.
func storeBehind(t *testing.T, pass func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "tester")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	backend := s3mem.New()
	check(t, backend.CreateBucket("models"))
	inner := gofakes3.New(backend).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !pass(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	return "s3://models/a/history?endpoint=" + url.QueryEscape(srv.URL) + "&region=us-east-1"
}

// TestMoreThanAPage: a store lists, and removes, 1,000 objects at a time.
func TestMoreThanAPage(t *testing.T) {
	many := 2300
	if testing.Short() {
		many = 1100
	}
	f, err := s3.Open(background, newStore(t).url)
	check(t, err)
	var tasks []func(context.Context) error
	for i := range many {
		tasks = append(tasks, func(ctx context.Context) error {
			return f.Put(ctx, fmt.Sprintf("parts/%04d.part", i), []byte{byte(i)}, true)
		})
	}
	check(t, inParallel(background, 8, tasks))
	check(t, f.Put(background, "beside", []byte("x"), true))
	list, err := f.List(background, "parts")
	check(t, err)
	seen := map[string]bool{}
	for _, e := range list {
		seen[e.Name] = true
	}
	if len(list) != many || len(seen) != many || !seen["0000.part"] || !seen[fmt.Sprintf("%04d.part", many-1)] {
		t.Errorf("%d objects are listed, %d different ones, want %d", len(list), len(seen), many)
	}
	check(t, f.Remove(background, "parts"))
	if list, err = f.List(background, "parts"); err != nil || len(list) != 0 {
		t.Errorf("%d objects are left: %v", len(list), err)
	}
	if list, err = f.List(background, ""); err != nil || len(list) != 1 {
		t.Errorf("beside them was one object, now there are %v: %v", list, err)
	}
}

// TestConnectionDies cuts connections in the middle of uploads. Once in a while it
// is not noticed; for as long as it lasts nothing is committed, and afterwards all
// goes on.
func TestConnectionDies(t *testing.T) {
	var every, uploads atomic.Int64 // every so many uploads dies; 0: none
	where := storeBehind(t, func(w http.ResponseWriter, r *http.Request) bool {
		k := every.Load()
		if r.Method != http.MethodPut || k == 0 || uploads.Add(1)%k != 0 {
			return false
		}
		half := make([]byte, r.ContentLength/2)
		_, _ = r.Body.Read(half)
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return false
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, not an end
		}
		_ = c.Close()
		return true
	})
	w := newTwin(seed(t))
	h, err := OpenHistory(background, where, HistoryOptions{Keep: 2, Run: oneRun})
	check(t, err)
	commit := func(delta bool) error {
		w.train(30)
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		n, err := h.Begin(t.Context(), NextOptions{Delta: delta})
		check(t, err)
		parts, err := w.lane(n.Writer(ctx), 0, 1, delta)
		if err != nil {
			return errors.Join(err, n.Abort())
		}
		_, err = n.Commit(ctx, Manifest{Digest: w.digest(), Slots: slots, Tables: specs, Step: w.step, Position: fmt.Appendf(nil, `{"step":%d}`, w.step),
			Dense: []DenseSpec{{Name: "mlp", ID: 5, Elements: denseElements}}, Parts: parts})
		if err == nil {
			w.clean()
		}
		return err
	}
	check(t, commit(false))
	every.Store(3)
	for range 3 {
		check(t, commit(true))
	}
	acked := w.copy()
	every.Store(1)
	err = commit(true)
	every.Store(0)
	if err == nil || !strings.Contains(err.Error(), "s3://models") {
		t.Errorf("without a connection: %v", err)
	}
	m, err := Open(where)
	check(t, err)
	check(t, acked.same(m, 2))
	check(t, commit(true)) // with what the lost one had
	m, err = Open(where)
	check(t, err)
	check(t, w.same(m, 2))
	check(t, h.Close())
	wellVerified(t, where)
}

// TestWrongCredentials: who is not let in is told so, with what to look at.
func TestWrongCredentials(t *testing.T) {
	for _, code := range []string{"InvalidAccessKeyId", "SignatureDoesNotMatch"} {
		var asked atomic.Int64
		where := storeBehind(t, func(w http.ResponseWriter, r *http.Request) bool {
			asked.Add(1)
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>no</Message></Error>`, code)
			return true
		})
		for what, f := range map[string]func() error{
			"opening": func() error { _, err := Open(where); return err },
			"writing": func() error { _, err := OpenHistory(background, where, HistoryOptions{}); return err },
		} {
			if err := f(); err == nil || errors.Is(err, ErrNoModel) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") || !strings.Contains(err.Error(), "s3://models") {
				t.Errorf("%s with %s: %v", what, code, err)
			}
		}
		if n := asked.Load(); n > 8 {
			t.Errorf("%s: it was asked %d times", code, n)
		}
	}
}

// TestTwoWritersOfAStore: of two commits of one number the second is refused,
// whoever holds the lock: the manifest is put where there is none.
func TestTwoWritersOfAStore(t *testing.T) {
	s, w := newStore(t), newTwin(seed(t))
	h, err := OpenHistory(background, s.url, HistoryOptions{})
	check(t, err)
	w.train(30)
	_, err = w.commit(h, NextOptions{}, 1)
	check(t, err)
	acked := w.copy()
	f, err := s3.Open(background, s.url)
	check(t, err)
	other, err := f.Read(background, manifestFile(1), maxManifest)
	check(t, err)
	check(t, f.Put(background, manifestFile(2), other, true)) // another's, who has lost the lock and does not know
	if err := f.Put(background, manifestFile(2), other, true); !errors.Is(err, fs.ErrExist) {
		t.Errorf("put twice: %v", err)
	}
	w.train(30)
	if _, err = w.commit(h, NextOptions{Delta: true}, 1); err == nil || !strings.Contains(err.Error(), "two jobs write to one history") {
		t.Errorf("a number that is taken: %v", err)
	}
	check(t, f.Remove(background, manifestFile(2)))
	m, err := Open(s.url)
	check(t, err)
	check(t, acked.same(m, 1))
	check(t, h.Close())
}
