package gpu

import (
	"errors"
	"fmt"
	"time"

	"psrt/nccl/coll"
)

// ErrUnfit marks what all ranks know of one of them: that it cannot use NCCL.
var ErrUnfit = errors.New("no collectives by NCCL")

// Control is a group of the same ranks that works without a GPU.
type Control interface {
	coll.Group
	// Lost is a rank that is known to have gone, nil none.
	Lost() *coll.RankError
	// Ask is a rank that has gone or does not answer, nil none.
	Ask() *coll.RankError
	// Blame breaks the group, and tells the others for whom.
	Blame(e *coll.RankError)
}

// Options of a group; zero values get defaults. All but the files, Machine and Refuse are
// the same at all ranks.
type Options struct {
	// Timeout bounds a call that says nothing else, and each step of joining; 30 s.
	Timeout time.Duration
	// Order of reductions; nil is coll.TreeOrder.
	Order []coll.Merge
	// AnyOrder lets NCCL add floats in an order of its own.
	AnyOrder bool
	// Room is what registered memory will take of each card, 0: not known.
	Room int64
	// Refuse is why this rank, and so all, must not use NCCL; "" it may.
	Refuse string
	// Machine is the same text at ranks that see the same cards.
	Machine string
	// CUDA and NCCL are the libraries' files, "" the machine's own.
	CUDA, NCCL string
	// OnPanic is told of a panic; nil: it ends the process.
	OnPanic func(any)
}

// Info is what a group works with.
type Info struct {
	Card     string `json:"card,omitempty"`    // this rank's
	Version  string `json:"version,omitempty"` // of NCCL
	AnyOrder bool   `json:"any_order,omitempty"`
	// Registered says whether the memory that calls use is registered with NCCL, for
	// networks: inside a host NCCL does not use that of memory that cuMemAlloc gave.
	Registered bool `json:"registered,omitempty"`
}

func (o Options) complete(control Control) (Options, error) {
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Order == nil {
		o.Order = coll.TreeOrder(control.Size())
	}
	switch {
	case o.Timeout < 0:
		return o, fmt.Errorf("gpu: Options.Timeout is %v, want a time to come", o.Timeout)
	case !coll.CheckOrder(o.Order, control.Size()):
		return o, fmt.Errorf("gpu: the order %v does not reduce %d ranks to the first; make it with coll.TreeOrder", o.Order, control.Size())
	}
	return o, nil
}
