package fold

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
)

// fill makes numbers that are tame enough not to be NaN and wild enough that the
// order of additions shows.
func fill(r *rand.Rand, t Type, n int) []byte {
	b := make([]byte, n*t.Size())
	for i := range n {
		v := r.NormFloat64() * math.Exp(r.NormFloat64()*2)
		switch at := b[i*t.Size():]; t {
		case F16:
			binary.LittleEndian.PutUint16(at, ToF16(float32(v)))
		case BF16:
			binary.LittleEndian.PutUint16(at, ToBF16(float32(v)))
		case F32:
			binary.LittleEndian.PutUint32(at, math.Float32bits(float32(v)))
		case F64:
			binary.LittleEndian.PutUint64(at, math.Float64bits(v))
		default:
			var w [8]byte
			binary.LittleEndian.PutUint64(w[:], r.Uint64())
			copy(at[:t.Size()], w[:])
		}
	}
	return b
}

// naive combines element by element along the order, with no tiles and no plan.
func naive(j *Job, srcs [][]byte, n int) []byte {
	x := make([][]byte, len(srcs))
	for i, s := range srcs {
		x[i] = bytes.Clone(s)
	}
	one := plainOf(j.Type, j.Op)
	for _, m := range j.Order {
		switch {
		case x[m.Src] == nil:
		case x[m.Dst] == nil:
			x[m.Dst] = x[m.Src]
		default:
			for at := 0; at < n; at += j.Type.Size() {
				end := at + j.Type.Size()
				one.combine(x[m.Dst][at:end], x[m.Dst][at:end], x[m.Src][at:end])
			}
		}
		x[m.Src] = nil
	}
	out := make([]byte, n)
	if len(x) > 0 && x[0] != nil {
		copy(out, x[0])
		if j.Divide > 1 {
			one.divide(out, out, j.Divide)
		}
	}
	return out
}

func halves(first, n int) []Merge {
	if n < 2 {
		return nil
	}
	k := 1
	for k*2 < n {
		k *= 2
	}
	return append(append(halves(first, k), halves(first+k, n-k)...), Merge{int32(first), int32(first + k)})
}

func TestEveryFormIsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 1))
	for ty := range types {
		for op := range ops {
			for round := range 12 {
				n := []int{1, 7, 64, 1000, 5000}[r.IntN(5)]
				j := Job{Type: ty, Op: op, Past: round%2 == 1, Divide: []int{0, 1, 3}[r.IntN(3)]}
				srcs := make([][]byte, 1+r.IntN(7))
				for i := range srcs {
					if r.IntN(4) > 0 {
						srcs[i] = fill(r, ty, n)
					}
				}
				j.Order = halves(0, len(srcs))
				want := naive(&j, srcs, n*ty.Size())
				for _, l := range Levels() {
					dsts := make([][]byte, 1+r.IntN(3))
					for i := range dsts {
						off := r.IntN(9) * ty.Size()
						dsts[i] = make([]byte, off+n*ty.Size())[off:]
					}
					mine := append([][]byte{}, srcs...)
					if in := r.IntN(len(srcs)); round > 5 && srcs[in] != nil { // in place
						mine[in] = bytes.Clone(srcs[in])
						dsts[r.IntN(len(dsts))] = mine[in]
					}
					j.RunAt(l, dsts, mine)
					for i, d := range dsts {
						if !bytes.Equal(d, want) {
							t.Fatalf("level %d, type %d, op %d, %d of %d sources, %d elements, destination %d: differs from the naive loop", l, ty, op, len(makePlan(srcs, nil).srcs), len(srcs), n, i)
						}
					}
				}
			}
		}
	}
}

// TestHalfFloats holds every half float of every form against math.
func TestHalfFloats(t *testing.T) {
	for _, ty := range []Type{F16, BF16} {
		all, one := make([]byte, 1<<17), make([]byte, 1<<17)
		for i := range 1 << 16 {
			binary.LittleEndian.PutUint16(all[2*i:], uint16(i))
			binary.LittleEndian.PutUint16(one[2*i:], map[Type]uint16{F16: ToF16(1), BF16: ToBF16(1)}[ty])
		}
		for _, l := range Levels() {
			out := make([]byte, 1<<17)
			j := Job{Type: ty, Op: Prod, Order: []Merge{{0, 1}}}
			j.RunAt(l, [][]byte{out}, [][]byte{all, one})
			for i := range 1 << 16 {
				got := binary.LittleEndian.Uint16(out[2*i:])
				nan := i&0x7fff > map[Type]int{F16: 0x7c00, BF16: 0x7f80}[ty]
				if !nan && got != uint16(i) || nan && got&0x7fff <= 0x7c00 {
					t.Fatalf("level %d, type %d: %#x times one is %#x", l, ty, i, got)
				}
			}
		}
	}
	for _, c := range []struct {
		f float32
		h uint16
	}{{0, 0}, {1, 0x3c00}, {-2, 0xc000}, {65504, 0x7bff}, {65519, 0x7bff}, {65520, 0x7c00}, {0x1p-24, 1}, {0x1p-25, 0}, {0x1.8p-25, 1}, {0x1p-14, 0x400}, {1 + 0x1p-11, 0x3c00}, {1 + 0x3p-11, 0x3c02}} {
		if h := ToF16(c.f); h != c.h {
			t.Errorf("ToF16(%v) = %#x, want %#x", c.f, h, c.h)
		}
	}
	if h := ToBF16(float32(math.NaN())); h&0x7fff <= 0x7f80 {
		t.Errorf("ToBF16(NaN) = %#x", h)
	}
}

func TestNobodyIsThere(t *testing.T) {
	for _, l := range Levels() {
		d := []byte{1, 2, 3, 4}
		j := Job{Type: F32, Order: []Merge{{0, 1}}}
		j.RunAt(l, [][]byte{d}, [][]byte{nil, nil})
		if !bytes.Equal(d, make([]byte, 4)) {
			t.Errorf("level %d: %v", l, d)
		}
		j.RunAt(l, [][]byte{d[:0]}, [][]byte{{}, {}})
	}
}

func TestRefuses(t *testing.T) {
	b := func(n int) []byte { return make([]byte, n) }
	for name, f := range map[string]func(){
		"odd length": func() { (&Job{Type: F32}).Run([][]byte{b(5)}, [][]byte{b(5)}) },
		"source":     func() { (&Job{Type: F32}).Run([][]byte{b(8)}, [][]byte{b(4)}) },
		"dst":        func() { (&Job{Type: F32}).Run([][]byte{b(8), b(4)}, [][]byte{b(8)}) },
		"merge":      func() { (&Job{Order: []Merge{{0, 2}}}).Run([][]byte{b(8)}, [][]byte{b(8), b(8)}) },
		"itself":     func() { (&Job{Order: []Merge{{1, 1}}}).Run([][]byte{b(8)}, [][]byte{b(8), b(8)}) },
		"type":       func() { (&Job{Type: types}).Run([][]byte{b(8)}, [][]byte{b(8)}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			f()
		}()
	}
}

func BenchmarkFold(b *testing.B) {
	for _, ty := range []Type{F32, F16, BF16, I32} {
		for _, n := range []int{64 << 10, 32 << 20} {
			for _, past := range []bool{false, true} {
				b.Run(fmt.Sprintf("type %d/%d KiB/past %t", ty, n>>10, past), func(b *testing.B) {
					x, y, d, e := make([]byte, n), make([]byte, n), make([]byte, n), make([]byte, n)
					j := Job{Type: ty, Order: []Merge{{0, 1}}, Past: past}
					b.SetBytes(int64(n))
					for b.Loop() {
						j.Run([][]byte{d, e}, [][]byte{x, y})
					}
				})
			}
		}
	}
}
