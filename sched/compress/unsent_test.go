package compress

import (
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// Who goes on with what was written sends the same rows and values, at the same times, as
// who wrote it.
func TestGoesOnWithUnsent(t *testing.T) {
	r := seedtest.Rand(t)
	for range 40 {
		heads, width := r.IntN(2)*3, 1+r.IntN(9)
		each := heads + width
		bytes := (1 + r.IntN(300)) * (each*4 + keptOverhead)
		share, limit := r.Float64()/3, r.IntN(20)
		a := NewSparse(heads, width, bytes)
		b := a
		da, db := &Dense{}, &Dense{}
		n := 1 + r.IntN(200)
		for step := range 40 {
			if step > 0 && r.IntN(6) == 0 { // b stops, and goes on
				text := db.Append(b.Append([]byte("head")))
				b, db = NewSparse(heads, width, bytes), &Dense{}
				rest, err := b.Load(text[4:], true)
				if err == nil {
					rest, err = db.Load(append(rest, "tail"...), n)
				}
				if err != nil || string(rest) != "tail" {
					t.Fatalf("%q is left, %v", rest, err)
				}
			} else if step == 0 {
				b = NewSparse(heads, width, bytes)
			}
			last := step == 39
			some := 0
			if !last {
				some = limit
			}
			ka, ra, ta := a.Due(last, some)
			kb, rb, tb := b.Due(last, some)
			if !slices.Equal(ka, kb) || !slices.Equal(ra, rb) || !slices.Equal(ta, tb) {
				t.Fatalf("step %d: %v and %v are due", step, ka, kb)
			}
			keys := make([]uint64, r.IntN(200))
			for i, k := range r.Perm(400)[:len(keys)] {
				keys[i] = uint64(k * k)
			}
			rows := whole(r, len(keys)*each)
			other := slices.Clone(rows)
			sa, sb := make([]bool, len(keys)), make([]bool, len(keys))
			ta, tb = make([]uint8, len(keys)), make([]uint8, len(keys))
			a.Choose(keys, rows, share, last, sa, ta)
			b.Choose(keys, other, share, last, sb, tb)
			if !slices.Equal(sa, sb) || !slices.Equal(rows, other) || !slices.Equal(ta, tb) || a.Kept() != b.Kept() {
				t.Fatalf("step %d: another choice", step)
			}
			ga := whole(r, n)
			gb := slices.Clone(ga)
			pa := slices.Clone(da.Choose(ga, []Block{{Values: ga}}, []int{0}, share, last)[0])
			pb := db.Choose(gb, []Block{{Values: gb}}, []int{0}, share, last)[0]
			if !slices.Equal(pa, pb) || !slices.Equal(ga, gb) {
				t.Fatalf("step %d: another choice of dense values", step)
			}
		}
	}
}

// Whatever is given to load is refused or taken over; what was taken over is written the same.
func FuzzUnsent(f *testing.F) {
	s := NewSparse(0, 2, 1<<12)
	s.Choose([]uint64{7, 8, 9}, []float32{1, 2, 3, 4, 5, 6}, .3, false, make([]bool, 3), make([]uint8, 3))
	s.Choose([]uint64{8, 10}, []float32{1, 2, 3, 4}, .3, false, make([]bool, 2), make([]uint8, 2))
	f.Add((&Dense{left: []float32{1, 0, 2}}).Append(s.Append(nil)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, d := NewSparse(0, 2, 1<<12), &Dense{}
		rest, err := s.Load(b, true)
		if err == nil {
			rest, err = d.Load(rest, 3)
		}
		if err != nil {
			return
		}
		if got := append(d.Append(s.Append(nil)), rest...); !slices.Equal(got, b) {
			t.Errorf("%x was read and is written as %x", b, got)
		}
	})
}

// What was written before rows had times is read: each row is of one step.
func TestUnsentWithoutTimes(t *testing.T) {
	b := le32(nil, 0, 2, 1, 5, 2) // rows of 2 floats, one step: number 5, two rows
	b = appendFloats(le32(b, 7, 0), []float32{1, 2})
	b = appendFloats(le32(b, 9, 0), []float32{3, 4})
	s := NewSparse(0, 2, 1<<12)
	if rest, err := s.Load(b, false); err != nil || len(rest) != 0 {
		t.Fatalf("%d bytes are left, %v", len(rest), err)
	}
	keys, rows, times := s.Due(true, 0)
	if !slices.Equal(keys, []uint64{7, 9}) || !slices.Equal(rows, []float32{1, 2, 3, 4}) || !slices.Equal(times, []uint8{1, 1}) {
		t.Errorf("keys %d, rows %v, of %d steps", keys, rows, times)
	}
}
