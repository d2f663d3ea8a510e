package combine

import (
	"encoding/binary"
	"fmt"
	"math"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/client"
	"psrt/sched/heter"
	"psrt/tiers/table"
)

// What a message is about; each has a leaf of the link for itself.
const (
	kindPull = iota
	kindPush
	kindAnnounce // names keys alone
	kinds
)

// headKind is a kind in a message's head, where 1 is heter's own.
const headKind = 2

// request is what a member asks for one of its working sets.
//
//	head   kind | examples, of the push | step: the clock | epoch: the pull's option |
//	       rows: of the global batch
//	  0    rows u64
//	  8    the rows' memory: key, address, bytes u64 | keys, values, gradients u64
//	 56    the dense vector's: key, address, bytes u64 | values, gradients u64
type request struct {
	kind          int
	clock         uint64
	option        client.PullOption
	examples      int
	batch         int
	rows          int
	sparse, dense client.Window
}

const (
	requestBytes  = 96
	requestFloats = requestBytes / 4
)

func (r *request) head() heter.Head {
	return heter.Head{Kind: uint16(headKind + r.kind), Examples: uint32(r.examples), Step: r.clock, Epoch: uint32(r.option), Rows: uint32(r.batch), Floats: requestFloats}
}

func (r *request) encode(floats []float32) {
	b := mem.Bytes(floats[:requestFloats])
	for i, v := range []uint64{uint64(r.rows),
		r.sparse.Memory.Key, r.sparse.Memory.Addr, r.sparse.Memory.Len, r.sparse.Keys, r.sparse.Values, r.sparse.Grads,
		r.dense.Memory.Key, r.dense.Memory.Addr, r.dense.Memory.Len, r.dense.Values, r.dense.Grads} {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
}

// sizes are what both ends know of a working set.
type sizes struct {
	values, grads int // floats of a row
	dense         int // of the vector
}

func sizesOf(spec *table.Spec, dense int) sizes {
	return sizes{values: spec.Dim, grads: spec.PushFloats(), dense: dense}
}

// decode reads a request and checks that all that it names lies in the memory named.
func (r *request) decode(h *heter.Head, floats []float32, s sizes) error {
	if kind := int(h.Kind) - headKind; kind < 0 || kind >= kinds || len(floats) != requestFloats || h.Epoch > math.MaxUint8 || h.Examples > math.MaxInt32 || h.Rows > math.MaxInt32 {
		return fmt.Errorf("%w: kind %d, %d floats, option %d", heter.ErrProtocol, h.Kind, len(floats), h.Epoch)
	}
	b := mem.Bytes(floats)
	var v [requestBytes / 8]uint64
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	if v[0] > math.MaxInt32 {
		return fmt.Errorf("%w: %d rows", heter.ErrProtocol, v[0])
	}
	*r = request{kind: int(h.Kind) - headKind, clock: h.Step, option: client.PullOption(h.Epoch), examples: int(h.Examples), batch: int(h.Rows), rows: int(v[0]),
		sparse: client.Window{Memory: rdma.RemoteRange{Key: v[1], Addr: v[2], Len: v[3]}, Keys: v[4], Values: v[5], Grads: v[6]},
		dense:  client.Window{Memory: rdma.RemoteRange{Key: v[7], Addr: v[8], Len: v[9]}, Values: v[10], Grads: v[11]}}
	parts := []struct {
		in     *client.Window
		at     uint64
		bytes  uint64
		unit   uint64
		called string
	}{
		{&r.sparse, r.sparse.Keys, 8 * v[0], 8, "keys"},
		{&r.sparse, r.sparse.Values, 4 * v[0] * uint64(s.values), 4, "values"},
		{&r.sparse, r.sparse.Grads, 4 * v[0] * uint64(s.grads), 4, "gradients"},
		{&r.dense, r.dense.Values, 4 * uint64(s.dense), 4, "dense values"},
		{&r.dense, r.dense.Grads, 4 * uint64(s.dense), 4, "dense gradients"},
	}
	if r.kind == kindAnnounce {
		parts = parts[:1]
	}
	for _, part := range parts {
		if m := part.in.Memory; m.Addr%8 != 0 || part.at%part.unit != 0 || part.at > m.Len || part.bytes > m.Len-part.at {
			return fmt.Errorf("%w: %d bytes of %s at %d of %d", heter.ErrProtocol, part.bytes, part.called, part.at, m.Len)
		}
	}
	return nil
}

// floatsAt and keysAt are parts of a window's memory, which decode has checked.
func floatsAt(b []byte, at uint64, n int) []float32 { return mem.Float32s(b[at : at+uint64(4*n)]) }
func keysAt(b []byte, at uint64, n int) []uint64    { return mem.Uint64s(b[at : at+uint64(8*n)]) }

// answer is the head of what the hub says to a request.
func (r *request) answer(refused, refusedDense int) heter.Head {
	return heter.Head{Kind: uint16(headKind + r.kind), Step: r.clock, Examples: uint32(refused), Rows: uint32(refusedDense)}
}
