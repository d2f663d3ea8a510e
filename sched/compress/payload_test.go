package compress

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/rdma/mem"
)

func normal(r *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(r.NormFloat64()) * 1e-3
	}
	return s
}

// near is how far a float may be off, in a group up to top.
func near(c Code, top float64) float64 {
	return map[Code]float64{Floats: 0, Half: top / 2048, Byte: top / 253, Top: 0}[c]
}

func same(t *testing.T, c Code, want, got []float32, width int) {
	t.Helper()
	for i := range want {
		top := 0.0
		for _, f := range want[i/width*width : min(len(want), (i/width+1)*width)] {
			top = max(top, math.Abs(float64(f)))
		}
		if d := math.Abs(float64(want[i] - got[i])); d > near(c, top) {
			t.Fatalf("%v: float %d is %g, was %g", c, i, got[i], want[i])
		}
	}
}

// choose picks some rows.
func choose(r *rand.Rand, n int) []uint64 {
	chosen := make([]uint64, (n+63)/64)
	for i := range n {
		if r.IntN(3) == 0 {
			chosen[i/64] |= 1 << (i % 64)
		}
	}
	return chosen
}

func words(n int) []byte { return mem.Bytes(make([]uint64, (n+7)/8)) }

func TestRows(t *testing.T) {
	r := seedtest.Rand(t)
	var s Scratch
	for range 300 {
		c, heads, width, n := Code(r.IntN(3)), r.IntN(2)*3, 1+r.IntN(40), r.IntN(200)
		each := heads + width
		rows := normal(r, n*each)
		var chosen []uint64
		if r.IntN(2) == 0 {
			chosen = choose(r, n)
		}
		bare := r.IntN(2) == 0
		b := words(MaxRows(n, heads, width))
		for i := range b {
			b[i] = byte(i)
		}
		var times, wantTimes []uint8
		if heads == 0 && n > 0 && r.IntN(2) == 0 {
			for range n {
				times = append(times, uint8(1+r.IntN(mostTimes)))
			}
		}
		size := EncodeRows(b, c, rows, heads, width, chosen, bare, times, &s)
		if size > len(b) || size%8 != 0 {
			t.Fatalf("%d bytes, at most %d", size, len(b))
		}
		var want []float32
		var left []int
		index := make([]int, n)
		for i := range n {
			index[i] = i
			if chosen == nil || chosen[i/64]>>(i%64)&1 != 0 {
				want = append(want, rows[i*each:(i+1)*each]...)
				if times != nil {
					wantTimes = append(wantTimes, times[i])
				}
			} else {
				left = append(left, i)
			}
		}
		of := n
		if chosen != nil && bare {
			of, left = len(want)/each, nil
		}
		p, err := Open(b[:size], of, heads, width)
		if err != nil {
			t.Fatal(err)
		}
		if p.N != len(want)/each || p.All() != (chosen == nil || bare || n == 0) {
			t.Fatalf("%d rows of %d, want %d", p.N, of, len(want)/each)
		}
		if !slices.Equal(p.Times, wantTimes) {
			t.Fatalf("of %d steps, want %d", p.Times, wantTimes)
		}
		got := make([]float32, len(want))
		p.Decode(got, &s)
		var tails, gotTails []float32
		for i := range p.N {
			if !slices.Equal(got[i*each:i*each+heads], want[i*each:i*each+heads]) {
				t.Fatalf("row %d has other heads", i)
			}
			tails, gotTails = append(tails, want[i*each+heads:(i+1)*each]...), append(gotTails, got[i*each+heads:(i+1)*each]...)
		}
		same(t, c, tails, gotTails, width)
		if p.All() {
			continue
		}
		to, others := make([]int, p.N), []int(nil)
		Pick(p, to, index, func(i int) { others = append(others, i) })
		if !slices.Equal(others, left) {
			t.Fatalf("left out: %v, want %v", others, left)
		}
		if _, err := Open(b[:size], of+1, heads, width); !errors.Is(err, ErrPayload) {
			t.Fatalf("for another number of rows: %v", err)
		}
	}
}

func TestBlocks(t *testing.T) {
	r := seedtest.Rand(t)
	for range 200 {
		c := Code(r.IntN(4))
		var blocks []Block
		var keep [][]uint16
		var lens []int
		var want []float32
		for range r.IntN(5) {
			k := Block{normal(r, 1+r.IntN(1000)), r.IntN(4) == 0}
			places := []uint16{}
			sent := slices.Clone(k.Values)
			for i := range k.Values {
				if r.IntN(10) == 0 {
					places = append(places, uint16(i))
				} else if c == Top && !k.Exact {
					sent[i] = 0
				}
			}
			blocks, keep, lens = append(blocks, k), append(keep, places), append(lens, len(k.Values))
			want = append(want, sent...)
		}
		b := words(MaxBlocks(lens))
		size := EncodeBlocks(b, c, blocks, keep)
		if size > len(b) {
			t.Fatalf("%d bytes, at most %d", size, len(b))
		}
		got := normal(r, len(want))
		if err := DecodeBlocks(got, lens, b[:size]); err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, k := range blocks {
			is := c
			if k.Exact {
				is = Floats
			}
			same(t, is, want[at:at+len(k.Values)], got[at:at+len(k.Values)], GroupFloats)
			at += len(k.Values)
		}
		if len(lens) > 0 {
			lens[0]++
			if err := DecodeBlocks(append(got, 0), lens, b[:size]); !errors.Is(err, ErrPayload) {
				t.Fatalf("for another length: %v", err)
			}
		}
	}
}

// Whatever comes, it is refused or gives as many floats as are wanted.
func FuzzOpen(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	var s Scratch
	for c := range Top {
		b := words(MaxRows(20, 3, 5))
		f.Add(b[:EncodeRows(b, c, normal(r, 160), 3, 5, choose(r, 20), c == Half, nil, &s)], 20, 3, 5)
		b = words(MaxRows(20, 0, 8))
		f.Add(b[:EncodeRows(b, c, normal(r, 160), 0, 8, choose(r, 20), c == Half, make([]uint8, 20), &s)], 20, 0, 8)
	}
	b := words(MaxBlocks([]int{300}))
	f.Add(b[:EncodeBlocks(b, Top, []Block{{Values: normal(r, 300)}}, [][]uint16{{1, 77, 299}})], 300, 0, 1)
	f.Fuzz(func(t *testing.T, in []byte, rows, heads, width int) {
		rows, heads, width = int(uint(rows)%1000), int(uint(heads)%4), 1+int(uint(width)%64)
		b := words(len(in))[:len(in)]
		copy(b, in)
		if p, err := Open(b, rows, heads, width); err == nil {
			p.Decode(make([]float32, p.N*(heads+width)), &Scratch{})
			Pick(p, make([]int, p.N), make([]int, rows), nil)
		}
		_ = DecodeBlocks(make([]float32, rows), []int{rows}, b)
	})
}
