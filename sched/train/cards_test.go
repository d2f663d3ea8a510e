package train

import (
	"errors"
	"fmt"
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/nccl"
	"psrt/nccl/coll"
	"psrt/rdma/mem"
)

// written is memory that a card may still write to.
type written struct{}

func (written) Bytes() []byte { return nil }
func (written) Close() error  { return coll.ErrWrites }

// What a card may still write to stays when its group is left.
func TestLeaveWritten(t *testing.T) {
	a, err := mem.New(mem.Config{Size: 4096, Node: -1, Purpose: "test"})
	if err != nil {
		t.Fatal(err)
	}
	b := &batch{}
	c := &collective{memories: map[*batch]coll.Memory{b: written{}}, landing: a, landed: written{}}
	if err := c.leave(); !errors.Is(err, coll.ErrWrites) || !b.kept {
		t.Errorf("left with %v, the batch's memory stays: %v", err, b.kept)
	}
	if err := c.leave(); err != nil || !b.kept {
		t.Errorf("left again with %v, the batch's memory stays: %v", err, b.kept)
	}
	clear(a.Bytes())
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// A worker wants no more of NCCL when its own card has failed, and not when another worker
// has, whatever NCCL says of that.
func TestFailedCards(t *testing.T) {
	library, driver := &nccl.Error{Call: "ncclAllReduce", Rank: 1, Result: nccl.RemoteError}, &cuda.Error{Call: "cuEventQuery"}
	for _, c := range []struct {
		err     error
		refuses bool
	}{
		{library, true},
		{fmt.Errorf("gpu: call 3: %w", driver), true},
		{&coll.RankError{Rank: 1, Fault: coll.Aborted, Cause: driver}, true},
		{&coll.RankError{Rank: 0, Fault: coll.Gone, Cause: library}, false},
		{fmt.Errorf("step 3: %w", &coll.RankError{Rank: 2, Fault: coll.Gone, Cause: errors.Join(library, coll.ErrClosed)}), false},
		{coll.ErrClosed, false},
	} {
		x := &collective{w: &worker{rank: &Rank{Index: 1}}, cards: &cards{}}
		if x.failedCards(c.err); (x.cards.refuse != "") != c.refuses {
			t.Errorf("%v: refuse is %q", c.err, x.cards.refuse)
		}
	}
}
