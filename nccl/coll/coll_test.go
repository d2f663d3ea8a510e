package coll

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	b := func(n int) []byte { return make([]byte, n) }
	for _, c := range []struct {
		name string
		call Call
		ok   bool
	}{
		{"barrier", Call{Kind: Barrier}, true},
		{"all-reduce", Call{Kind: AllReduce, Type: F32, Send: b(8), Recv: b(8)}, true},
		{"nothing", Call{Kind: AllReduce, Type: F32}, true},
		{"odd", Call{Kind: AllReduce, Type: F32, Send: b(7), Recv: b(7)}, false},
		{"shorter", Call{Kind: AllReduce, Type: F32, Send: b(8), Recv: b(4)}, false},
		{"reduce-scatter", Call{Kind: ReduceScatter, Type: F32, Send: b(24), Recv: b(8)}, true},
		{"reduce-scatter of less", Call{Kind: ReduceScatter, Type: F32, Send: b(20), Recv: b(8)}, false},
		{"all-gather", Call{Kind: AllGather, Type: U8, Send: b(5), Recv: b(15)}, true},
		{"all-gather of less", Call{Kind: AllGather, Type: U8, Send: b(5), Recv: b(14)}, false},
		{"all-to-all", Call{Kind: AllToAll, Type: I64, Send: b(48), Recv: b(48)}, true},
		{"uneven all-to-all", Call{Kind: AllToAll, Type: I64, Send: b(40), Recv: b(40)}, false},
		{"counts", Call{Kind: AllToAllV, Type: I32, Send: b(12), Recv: b(4), SendCounts: []int{1, 0, 2}, RecvCounts: []int{0, 0, 1}}, true},
		{"counts beyond", Call{Kind: AllToAllV, Type: I32, Send: b(12), Recv: b(4), SendCounts: []int{1, 0, 3}, RecvCounts: []int{0, 0, 1}}, false},
		{"counts left over", Call{Kind: AllToAllV, Type: I32, Send: b(12), Recv: b(4), SendCounts: []int{1, 0, 1}, RecvCounts: []int{0, 0, 1}}, false},
		{"negative counts", Call{Kind: AllToAllV, Type: I32, Send: b(4), Recv: b(4), SendCounts: []int{2, 0, -1}, RecvCounts: []int{0, 0, 1}}, false},
		{"no counts", Call{Kind: AllToAllV, Type: I32, Send: b(4), Recv: b(4)}, false},
		{"broadcast", Call{Kind: Broadcast, Type: I32, Root: 2, Recv: b(4)}, true},
		{"root", Call{Kind: Broadcast, Type: I32, Root: 3, Recv: b(4)}, false},
		{"type", Call{Kind: AllReduce, Type: 99}, false},
		{"op", Call{Kind: AllReduce, Op: 5}, false},
		{"kind", Call{}, false},
		{"time", Call{Kind: AllReduce, Within: -1}, false},
	} {
		if err := c.call.Check(3); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrCall) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func merges(pairs ...int32) (out []Merge) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, Merge{Dst: pairs[i], Src: pairs[i+1]})
	}
	return out
}

func TestTreeOrder(t *testing.T) {
	for n := range 70 {
		if o := TreeOrder(n); !CheckOrder(o, n) {
			t.Errorf("the order over %d is none: %v", n, o)
		}
	}
	if o := TreeOrder(5); !slices.Equal(o, merges(0, 1, 2, 3, 0, 2, 0, 4)) {
		t.Errorf("over 5: %v", o)
	}
	for _, o := range [][]Merge{nil, merges(0, 1), merges(0, 1, 0, 1), merges(1, 0, 1, 2), merges(0, 1, 1, 2), merges(0, 1, 0, 3), merges(0, 2, 1, 1), merges(0, 1, -1, 2)} {
		if CheckOrder(o, 3) {
			t.Errorf("%v is taken for an order", o)
		}
	}
}

// known is memory whose end has this error.
type known struct{ err error }

func (known) Bytes() []byte  { return nil }
func (k known) Close() error { return k.err }

type closer func() error

func (c closer) Close() error { return c() }

// TestGiveBack: memory that may still be written to stays; no other does.
func TestGiveBack(t *testing.T) {
	for _, err := range []error{nil, ErrClosed, ErrWrites, fmt.Errorf("a card: %w", ErrWrites)} {
		given := 0
		got := GiveBack(known{err}, closer(func() error { given++; return io.ErrUnexpectedEOF }))
		stays := errors.Is(err, ErrWrites)
		if stays != (given == 0) || given > 1 || !errors.Is(got, err) && err != nil || errors.Is(got, io.ErrUnexpectedEOF) == stays {
			t.Errorf("%v: given back %d times, %v", err, given, got)
		}
	}
}

func TestRankErrorTellsWhatToDo(t *testing.T) {
	cause := errors.New("killed")
	err := error(&RankError{Rank: 3, Fault: Gone, Call: 7, Kind: AllReduce, Cause: cause})
	for _, want := range []string{"rank 3 is gone", "call 7 (all-reduce)", "killed", "log"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
}
