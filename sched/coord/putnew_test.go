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
