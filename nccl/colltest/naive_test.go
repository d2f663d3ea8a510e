package colltest

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"psrt/nccl/coll"
)

// TestNaive holds the definition itself against results worked out by hand.
func TestNaive(t *testing.T) {
	counts := [][]int{{1, 2}, {0, 1}}
	for _, c := range []struct {
		name  string
		calls []coll.Call
		want  [][]byte
	}{
		{"sum wraps", []coll.Call{{Kind: coll.AllReduce, Type: coll.U8, Send: []byte{1, 255}}, {Send: []byte{2, 3}}}, [][]byte{{3, 2}, {3, 2}}},
		{"average of signed", []coll.Call{{Kind: coll.AllReduce, Type: coll.I8, Op: coll.Avg, Send: []byte{0xfd}}, {Send: []byte{0}}}, [][]byte{{0xff}, {0xff}}},
		{"average of who is there", []coll.Call{{Kind: coll.AllReduce, Type: coll.U8, Op: coll.Avg, Send: []byte{9}}, {Send: []byte{1}, Absent: true}}, [][]byte{{9}, {9}}},
		{"nobody", []coll.Call{{Kind: coll.AllReduce, Type: coll.U8, Send: []byte{9}, Absent: true}, {Send: []byte{1}, Absent: true}}, [][]byte{{0}, {0}}},
		{"signed minimum", []coll.Call{{Kind: coll.AllReduce, Type: coll.I8, Op: coll.Min, Send: []byte{0xff}}, {Send: []byte{1}}}, [][]byte{{0xff}, {0xff}}},
		{"maximum", []coll.Call{{Kind: coll.AllReduce, Type: coll.U8, Op: coll.Max, Send: []byte{0xff}}, {Send: []byte{1}}}, [][]byte{{0xff}, {0xff}}},
		{"half floats", []coll.Call{{Kind: coll.AllReduce, Type: coll.F16, Op: coll.Prod, Send: []byte{0, 0x40}}, {Send: []byte{0, 0x42}}}, [][]byte{{0, 0x46}, {0, 0x46}}},
		{"scattered", []coll.Call{{Kind: coll.ReduceScatter, Type: coll.U8, Send: []byte{1, 2}, Recv: []byte{0}}, {Send: []byte{3, 4}, Recv: []byte{0}}}, [][]byte{{4}, {6}}},
		{"gathered", []coll.Call{{Kind: coll.AllGather, Type: coll.U8, Send: []byte{1, 2}}, {Send: []byte{3, 4}}}, [][]byte{{1, 2, 3, 4}, {1, 2, 3, 4}}},
		{"all to all", []coll.Call{{Kind: coll.AllToAll, Type: coll.U8, Send: []byte{1, 2}}, {Send: []byte{3, 4}}}, [][]byte{{1, 3}, {2, 4}}},
		{"by counts", []coll.Call{{Kind: coll.AllToAllV, Type: coll.U8, Send: []byte{1, 2, 3}, SendCounts: counts[0]}, {Send: []byte{4}, SendCounts: counts[1]}}, [][]byte{{1}, {2, 3, 4}}},
		{"broadcast", []coll.Call{{Kind: coll.Broadcast, Type: coll.U8, Root: 1, Recv: []byte{1}}, {Root: 1, Recv: []byte{2}}}, [][]byte{{2}, {2}}},
	} {
		for r, got := range Naive(coll.TreeOrder(2), c.calls) {
			if !bytes.Equal(got, c.want[r]) {
				t.Errorf("%s: rank %d gets %v, want %v", c.name, r, got, c.want[r])
			}
		}
	}
}

// TestNear: another order passes, an error of one part in a million does not.
func TestNear(t *testing.T) {
	f := func(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }
	for _, c := range []struct {
		op        coll.Op
		got, want float32
		is        bool
	}{
		{coll.Sum, (1e8 + 1) + -1e8, 1 + (1e8 + -1e8), true}, {coll.Sum, 100, 1, false}, {coll.Avg, 1. / 3, 0, true}, {coll.Avg, 99, 1, false},
		{coll.Prod, -1e16, -1.0000001e16, true}, {coll.Prod, -1e16, -1.00001e16, false}, {coll.Max, 1e8, 1e8, true}, {coll.Max, 1e8, 99999992, false},
		{coll.Sum, float32(math.NaN()), 1, false},
	} {
		var calls []coll.Call
		for _, v := range []float32{1e8, 1, -1e8} {
			calls = append(calls, coll.Call{Kind: coll.AllReduce, Type: coll.F32, Op: c.op, Send: f(v), Recv: f(c.got)})
		}
		if at := near(calls, 1, f(c.want)); (at < 0) != c.is {
			t.Errorf("operation %d: %v beside %v: from byte %d on", c.op, c.got, c.want, at)
		}
	}
}
