package colltest

import (
	"encoding/binary"
	"math"

	"psrt/csrc/fold"
	"psrt/nccl/coll"
)

// Naive is what each rank's Recv must be after calls, one for each rank, of a kind.
// order is the group's. Ranks that received nothing have nil.
func Naive(order []coll.Merge, calls []coll.Call) [][]byte {
	n, out := len(calls), make([][]byte, len(calls))
	kind, width := calls[0].Kind, calls[0].Type.Size()
	var whole []byte
	if kind.Reduces() {
		whole = combined(order, calls)
	}
	for r := range calls {
		switch kind {
		case coll.AllReduce:
			out[r] = whole
		case coll.ReduceScatter:
			block := len(calls[r].Recv)
			out[r] = whole[r*block:][:block]
		case coll.AllGather:
			for _, c := range calls {
				out[r] = append(out[r], c.Send...)
			}
		case coll.AllToAll:
			block := len(calls[r].Send) / n
			for _, c := range calls {
				out[r] = append(out[r], c.Send[r*block:][:block]...)
			}
		case coll.AllToAllV:
			for _, c := range calls {
				at := 0
				for _, k := range c.SendCounts[:r] {
					at += k * width
				}
				out[r] = append(out[r], c.Send[at:][:c.SendCounts[r]*width]...)
			}
		case coll.Broadcast:
			out[r] = append(out[r], calls[calls[r].Root].Recv...)
		}
	}
	return out
}

// combined is the reduction of all Sends, element by element.
func combined(order []coll.Merge, calls []coll.Call) []byte {
	first := &calls[0]
	width := first.Type.Size()
	out := make([]byte, len(first.Send))
	here := 0
	for _, c := range calls {
		if !c.Absent {
			here++
		}
	}
	x, there := make([]number, len(calls)), make([]bool, len(calls))
	for at := 0; at < len(out); at += width {
		for r, c := range calls {
			if there[r] = !c.Absent; there[r] {
				x[r] = get(first.Type, c.Send[at:])
			}
		}
		for _, m := range order {
			switch {
			case !there[m.Src]:
			case !there[m.Dst]:
				x[m.Dst], there[m.Dst] = x[m.Src], true
			default:
				x[m.Dst] = combine(first.Type, first.Op, x[m.Dst], x[m.Src])
			}
		}
		if !there[0] {
			continue
		}
		if first.Op == coll.Avg {
			x[0] = divided(first.Type, x[0], here)
		}
		put(first.Type, out[at:], x[0])
	}
	return out
}

// number holds any element: floats in f, where one operation of a narrower type,
// rounded to it once more, gives what that type gives; integers in i, sign-extended,
// or where they have no sign in u.
type number struct {
	f float64
	i int64
	u uint64
}

func get(t coll.Type, b []byte) (v number) {
	le := binary.LittleEndian
	switch t {
	case coll.I8:
		v.i = int64(int8(b[0]))
	case coll.U8:
		v.u = uint64(b[0])
	case coll.I32:
		v.i = int64(int32(le.Uint32(b)))
	case coll.U32:
		v.u = uint64(le.Uint32(b))
	case coll.I64:
		v.i = int64(le.Uint64(b))
	case coll.U64:
		v.u = le.Uint64(b)
	case coll.F16:
		v.f = float64(fold.FromF16(le.Uint16(b)))
	case coll.BF16:
		v.f = float64(fold.FromBF16(le.Uint16(b)))
	case coll.F32:
		v.f = float64(math.Float32frombits(le.Uint32(b)))
	case coll.F64:
		v.f = math.Float64frombits(le.Uint64(b))
	}
	return v
}

func put(t coll.Type, b []byte, v number) {
	le := binary.LittleEndian
	switch t {
	case coll.I8:
		b[0] = byte(v.i)
	case coll.U8:
		b[0] = byte(v.u)
	case coll.I32:
		le.PutUint32(b, uint32(v.i))
	case coll.U32:
		le.PutUint32(b, uint32(v.u))
	case coll.I64:
		le.PutUint64(b, uint64(v.i))
	case coll.U64:
		le.PutUint64(b, v.u)
	case coll.F16:
		le.PutUint16(b, fold.ToF16(float32(v.f)))
	case coll.BF16:
		le.PutUint16(b, fold.ToBF16(float32(v.f)))
	case coll.F32:
		le.PutUint32(b, math.Float32bits(float32(v.f)))
	case coll.F64:
		le.PutUint64(b, math.Float64bits(v.f))
	}
}

// narrow brings a result into its type.
func narrow(t coll.Type, v number) number {
	var b [8]byte
	put(t, b[:], v)
	return get(t, b[:])
}

func combine(t coll.Type, op coll.Op, a, b number) number {
	switch op {
	case coll.Prod:
		return narrow(t, number{a.f * b.f, a.i * b.i, a.u * b.u})
	case coll.Min:
		if b.f < a.f || b.i < a.i || b.u < a.u {
			return b
		}
		return a
	case coll.Max:
		if b.f > a.f || b.i > a.i || b.u > a.u {
			return b
		}
		return a
	}
	return narrow(t, number{a.f + b.f, a.i + b.i, a.u + b.u})
}

func divided(t coll.Type, v number, by int) number {
	return narrow(t, number{v.f / float64(by), v.i / int64(by), v.u / uint64(by)})
}
