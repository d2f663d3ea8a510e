package local

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/coordtest"
)

func TestConformance(t *testing.T) {
	coordtest.Run(t, func(t *testing.T) coordtest.Pair {
		s := New()
		t.Cleanup(func() { s.Close() })
		return coordtest.Pair{A: s, B: s}
	})
}

func TestHistoryIsBounded(t *testing.T) {
	s := New()
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := range History + 10 {
		if _, err := s.Put(ctx, fmt.Sprint("k", i%7), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.history) != History || s.oldest != 11 {
		t.Errorf("%d events remembered from revision %d, want %d from 11", len(s.history), s.oldest, History)
	}
	if _, err := s.Watch(ctx, "", 10); !errors.Is(err, coord.ErrCompacted) {
		t.Errorf("a watch of the forgotten past: %v", err)
	}
	w, err := s.Watch(ctx, "k0", int64(History-100))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if e := <-w.Events(); e.Key != "k0" || e.Revision < History-100 || e.Revision > History-92 {
		t.Errorf("first event of the past is %+v", e)
	}
	// A past longer than the queue ends the watch at once, not in silence.
	all, err := s.Watch(ctx, "", 11)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range all.Events() {
		n++
	}
	if n != coord.QueueEvents || !errors.Is(all.Err(), coord.ErrLagging) {
		t.Errorf("%d events, then %v", n, all.Err())
	}
}

func TestStoreIsBounded(t *testing.T) {
	s := New()
	defer s.Close()
	ctx := context.Background()
	big := make([]byte, coord.MaxValue)
	var err error
	for i := 0; i <= maxBytes/coord.MaxValue && err == nil; i++ {
		_, err = s.Put(ctx, fmt.Sprint("big", i), big, 0)
	}
	if !errors.Is(err, coord.ErrTooLarge) {
		t.Errorf("more than %d bytes are stored: %v", maxBytes, err)
	}
	for i := range MaxLeases {
		if _, err := s.Grant(ctx, time.Hour); err != nil {
			t.Fatalf("lease %d: %v", i, err)
		}
	}
	if _, err := s.Grant(ctx, time.Hour); !errors.Is(err, coord.ErrTooLarge) {
		t.Errorf("lease %d: %v", MaxLeases+1, err)
	}
}

// TestHistoryLetsLargeValuesGo: what is large is remembered for a minute, not for as
// long as a job.
func TestHistoryLetsLargeValuesGo(t *testing.T) {
	s, ctx := New(), t.Context()
	defer s.Close()
	const size, n = 1 << 18, 3 * calmBytes >> 18
	put := func() {
		for range n {
			if _, err := s.Put(ctx, "k", make([]byte, size), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	put()
	if s.historyBytes != n*size || len(s.times) != len(s.history) {
		t.Errorf("%d bytes of %d recent changes are remembered, want all %d", s.historyBytes, n, n*size)
	}
	for i := range s.times {
		s.times[i] = s.times[i].Add(-2 * recent)
	}
	put()
	if s.historyBytes != n*size || len(s.history) != n || len(s.times) != n || s.oldest != n+1 {
		t.Errorf("%d bytes of %d changes from revision %d are remembered, want the last %d", s.historyBytes, len(s.history), s.oldest, n)
	}
}
