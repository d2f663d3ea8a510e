package ring

import (
	"testing"

	"psrt/csrc/seedtest"
	"psrt/nccl/coll"
	"psrt/rdma"
)

func TestHeaderRoundTrip(t *testing.T) {
	r := seedtest.Rand(t)
	for range 1000 {
		h := header{word: word(1 + r.IntN(4)), kind: coll.Kind(1 + r.IntN(7)), typ: coll.Type(r.IntN(10)), op: coll.Op(r.IntN(5)),
			absent: r.IntN(2) == 0, within: r.IntN(2) == 0, direct: r.IntN(2) == 0, levels: r.IntN(2) == 0, call: r.Uint64(), bytes: r.Uint64(), root: r.Uint32(), payload: uint32(r.IntN(100)),
			send: rdma.RemoteRange{Key: r.Uint64(), Addr: r.Uint64(), Len: r.Uint64()}, recv: rdma.RemoteRange{Key: r.Uint64(), Addr: r.Uint64(), Len: r.Uint64()},
			next: rdma.RemoteRange{Key: r.Uint64(), Addr: r.Uint64(), Len: r.Uint64()}}
		b := make([]byte, headerBytes+h.payload)
		h.encode(b)
		var got header
		if err := got.decode(b); err != nil || got != h {
			t.Fatalf("%+v became %+v: %v", h, got, err)
		}
		if got.differs(&h) != "" {
			t.Fatalf("%+v differs from itself", h)
		}
	}
}

// FuzzHeader: what is understood is said again in the same words.
func FuzzHeader(f *testing.F) {
	h := header{word: wordBegin, kind: coll.AllReduce, typ: coll.F32, payload: 4}
	b := make([]byte, headerBytes+4)
	h.encode(b)
	f.Add(b)
	f.Add(b[:headerBytes])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h header
		if h.decode(b) != nil {
			return
		}
		again := make([]byte, len(b))
		copy(again[headerBytes:], b[headerBytes:])
		h.encode(again)
		if string(again[:headerBytes]) != string(b[:headerBytes]) {
			t.Errorf("%x became %x", b[:headerBytes], again[:headerBytes])
		}
	})
}
