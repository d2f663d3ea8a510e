package coord_test

import (
	"context"
	"errors"
	"testing"

	"psrt/sched/coord"
	"psrt/sched/coord/coordtest"
	"psrt/sched/coord/local"
)

// A key is put once, whatever becomes of the answers, and who comes second learns what
// is there, also where its own answer was lost.
func TestPutNewThroughAbsences(t *testing.T) {
	t.Parallel()
	s := local.New()
	defer s.Close()
	a := &coordtest.Absent{Coordinator: s}
	// Its first try does not arrive, of its second the answer is lost.
	if there, err := coord.PutNew(t.Context(), a, "k", []byte("mine"), 0); err != nil || there != nil {
		t.Fatalf("%q, %v", there, err)
	}
	kv, err := s.Get(t.Context(), "k")
	if err != nil || string(kv.Value) != "mine" {
		t.Fatalf("%q, %v", kv.Value, err)
	}
	for range 3 { // in each of the three ways
		if there, err := coord.PutNew(t.Context(), a, "k", []byte("other"), 0); !errors.Is(err, coord.ErrConflict) || string(there) != "mine" {
			t.Errorf("%q, %v", there, err)
		}
	}
	// The same again is another's, as nothing was lost.
	if there, err := coord.PutNew(t.Context(), s, "k", []byte("mine"), 0); !errors.Is(err, coord.ErrConflict) || string(there) != "mine" {
		t.Errorf("%q, %v", there, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := coord.PutNew(ended, a, "more", []byte("v"), 0); err == nil {
		t.Error("it goes on behind the end")
	}
}

// unread is a coordinator whose keys cannot be read.
type unread struct {
	coord.Coordinator
	why error
	end func() // of the caller's context
}

func (u unread) Get(context.Context, string) (coord.KV, error) {
	u.end()
	return coord.KV{}, u.why
}

// A conflict is told with the value that is there, or not at all.
func TestPutNewUnread(t *testing.T) {
	t.Parallel()
	s := local.New()
	defer s.Close()
	if _, err := s.Put(t.Context(), "k", []byte("there"), 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		why, want error
		ends      bool
	}{
		{"store away", coord.ErrUnavailable, coord.ErrUnavailable, false},
		{"key comes and goes until the end", coord.ErrNotFound, context.Canceled, true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		u := unread{s, c.why, func() {}}
		if c.ends {
			u.end = cancel
		}
		there, err := coord.PutNew(ctx, u, "k", []byte("mine"), 0)
		if !errors.Is(err, c.want) || errors.Is(err, coord.ErrConflict) || there != nil {
			t.Errorf("%s: %q, %v", c.name, there, err)
		}
		cancel()
	}
}
