package coll

import (
	"errors"
	"fmt"
	"time"

	"psrt/csrc/fold"
)

// Type of elements.
type Type = fold.Type

// The types.
const (
	I8   = fold.I8
	U8   = fold.U8
	I32  = fold.I32
	U32  = fold.U32
	I64  = fold.I64
	U64  = fold.U64
	F16  = fold.F16
	BF16 = fold.BF16
	F32  = fold.F32
	F64  = fold.F64
)

// Op combines elements.
type Op uint8

// The operations. Avg is the sum over the ranks that are present, divided by how
// many they are.
const (
	Sum  = Op(fold.Sum)
	Prod = Op(fold.Prod)
	Min  = Op(fold.Min)
	Max  = Op(fold.Max)
	Avg  = Max + 1
)

// Kind of a call.
type Kind uint8

// The kinds, with what each rank gives and gets; n is the number of ranks.
const (
	Barrier       Kind = iota + 1 // nothing; over when all have come
	AllReduce                     // Send, and as long Recv: the combination of all
	ReduceScatter                 // Send of n blocks; Recv: the combination of block Rank
	AllGather                     // Send; Recv of n blocks: those of all
	AllToAll                      // Send of n blocks, by receiver; Recv, by sender
	AllToAllV                     // likewise with blocks of SendCounts and RecvCounts elements
	Broadcast                     // Recv of all becomes that of Root; Send is not used
	kinds
)

func (k Kind) String() string {
	names := [...]string{"?", "barrier", "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "all-to-all-v", "broadcast"}
	if k < kinds {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Known says whether k is a kind.
func (k Kind) Known() bool { return k > 0 && k < kinds }

// Call is one collective as one rank sees it. Send and Recv lie in memory that was
// registered with the group. They are apart, or, for an all-reduce, the same.
type Call struct {
	Kind       Kind
	Type       Type // of all but a barrier
	Op         Op   // of a reduction
	Send, Recv []byte
	Root       int
	// SendCounts and RecvCounts are elements by rank, of an AllToAllV.
	SendCounts, RecvCounts []int
	// Absent: this rank has nothing to give to a reduction; its Send is not read.
	// Where all are absent the result is zeros.
	Absent bool
	// Within bounds the call from when it begins; 0 is the group's Timeout.
	Within time.Duration
}

// ErrCall marks calls that are wrong whatever the other ranks do; nothing is sent.
var ErrCall = errors.New("coll: bad call")

// Check says what is wrong with a call in a group of size ranks.
func (c *Call) Check(size int) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrCall, c.Kind, fmt.Sprintf(format, args...))
	}
	width := c.Type.Size()
	send, recv := len(c.Send), len(c.Recv)
	switch {
	case !c.Kind.Known():
		return bad("unknown kind")
	case c.Kind == Barrier:
		return nil
	case width == 0:
		return bad("unknown type %d", c.Type)
	case c.Op > Avg:
		return bad("unknown operation %d", c.Op)
	case send%width != 0 || recv%width != 0:
		return bad("%d and %d bytes are no whole elements of %d", send, recv, width)
	case c.Within < 0:
		return bad("a time of %v", c.Within)
	}
	want := send
	switch c.Kind {
	case ReduceScatter:
		want = recv * size
		if send == want {
			return nil
		}
	case AllGather:
		want = send * size
	case AllToAll:
		if send%(size*width) != 0 {
			return bad("%d bytes are no %d equal blocks", send, size)
		}
	case AllToAllV:
		return c.checkCounts(size, bad)
	case Broadcast:
		if c.Root < 0 || c.Root >= size {
			return bad("root %d of %d ranks", c.Root, size)
		}
		return nil
	}
	if c.Kind == ReduceScatter || recv != want {
		return bad("%d bytes are sent and %d received by each of %d ranks", send, recv, size)
	}
	return nil
}

func (c *Call) checkCounts(size int, bad func(string, ...any) error) error {
	for _, side := range []struct {
		name   string
		counts []int
		bytes  int
	}{{"SendCounts", c.SendCounts, len(c.Send)}, {"RecvCounts", c.RecvCounts, len(c.Recv)}} {
		if len(side.counts) != size {
			return bad("%s has %d entries for %d ranks", side.name, len(side.counts), size)
		}
		left := side.bytes / c.Type.Size()
		for _, n := range side.counts {
			if n < 0 || n > left {
				return bad("%s %v do not fit into %d bytes", side.name, side.counts, side.bytes)
			}
			left -= n
		}
		if left != 0 {
			return bad("%s %v leave %d elements over", side.name, side.counts, left)
		}
	}
	return nil
}

// Reduces says whether values are combined.
func (k Kind) Reduces() bool { return k == AllReduce || k == ReduceScatter }
