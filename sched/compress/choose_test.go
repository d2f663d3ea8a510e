package compress

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// whole makes gradients whose sums are exact.
func whole(r *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(r.IntN(2001) - 1000)
	}
	return s
}

// Against a sort of all.
func TestDenseChoice(t *testing.T) {
	r := seedtest.Rand(t)
	for range 50 {
		lens := []int{1 + r.IntN(50), 1 + r.IntN(3000)}
		var d Dense
		left := make([]float32, lens[0]+lens[1])
		share := r.Float64() / 2
		for step := range 6 {
			grads := whole(r, len(left))
			want := slices.Clone(grads)
			blocks := []Block{{Values: grads[:lens[0]], Exact: step == 3}, {Values: grads[lens[0]:]}}
			keep := d.Choose(grads, blocks, []int{0, lens[0]}, share, step == 5)
			at := 0
			for i, n := range lens {
				if blocks[i].Exact {
					if len(keep[i]) != 0 || !slices.Equal(grads[at:at+n], want[at:at+n]) {
						t.Fatal("an exact block is touched")
					}
					at += n
					continue
				}
				order := make([]int, n)
				for j := range n {
					order[j] = j
					want[at+j] += left[at+j]
				}
				slices.SortFunc(order, func(a, b int) int {
					return cmp.Or(cmp.Compare(magnitude(want[at+b]), magnitude(want[at+a])), a-b)
				})
				k := portion(n, share)
				if step == 5 {
					k = n
				}
				order = order[:k]
				slices.Sort(order)
				if !slices.EqualFunc(order, keep[i], func(a int, b uint16) bool { return a == int(b) }) {
					t.Fatalf("block %d: places %v, want %v", i, keep[i], order)
				}
				copy(left[at:], want[at:at+n])
				for _, j := range order {
					left[at+j] = 0
				}
				at += n
			}
			if !slices.Equal(d.left, left) {
				t.Fatal("what is left is not what was not sent")
			}
		}
	}
}

// What is sent in the end is what was given, row by row, within the room; and in the
// same order whatever the order of the rows.
func TestSparseChoice(t *testing.T) {
	r := seedtest.Rand(t)
	for range 40 {
		heads, width := r.IntN(2)*3, 1+r.IntN(9)
		each := heads + width
		capacity := 1 + r.IntN(300)
		bytes := capacity * (each*4 + keptOverhead)
		a, b := NewSparse(heads, width, bytes), NewSparse(heads, width, bytes)
		share := r.Float64() / 3
		given, sum := map[uint64][]float32{}, map[uint64][]float32{}
		steps, pushed := map[uint64]int{}, map[uint64]int{}
		take := func(to map[uint64][]float32, key uint64, row []float32) {
			if to[key] == nil {
				to[key] = make([]float32, each)
			}
			for i, f := range row {
				if i == 0 && heads > 0 {
					to[key][0] = f
				} else {
					to[key][i] += f
				}
			}
		}
		for step := range 30 {
			last := step == 29
			dueKeys, dueRows, dueTimes := a.Due(last, 0)
			otherKeys, _, _ := b.Due(last, 0)
			if slices.Sort(otherKeys); !slices.Equal(slices.Sorted(slices.Values(dueKeys)), otherKeys) {
				t.Fatal("other rows are due for another order")
			}
			for i, k := range dueKeys {
				take(sum, k, dueRows[i*each:(i+1)*each])
				pushed[k] += int(dueTimes[i])
			}
			if last && a.Kept() != 0 {
				t.Fatalf("%d rows are kept after all were due", a.Kept())
			}
			n := r.IntN(200)
			keys := make([]uint64, n)
			for i, k := range r.Perm(400)[:n] {
				keys[i] = uint64(k * k)
			}
			rows := whole(r, n*each)
			for i, k := range keys {
				if heads > 0 {
					rows[i*each] = float32(k % 7)
				}
				take(given, k, rows[i*each:(i+1)*each])
				steps[k]++
			}
			shuffled, order := make([]float32, 0, n*each), r.Perm(n)
			shuffledKeys := []uint64{}
			for _, i := range order {
				shuffled, shuffledKeys = append(shuffled, rows[i*each:(i+1)*each]...), append(shuffledKeys, keys[i])
			}
			sent, other := make([]bool, n), make([]bool, n)
			before := a.Kept()
			times, otherTimes := make([]uint8, n), make([]uint8, n)
			a.Choose(keys, rows, share, last, sent, times)
			b.Choose(shuffledKeys, shuffled, share, last, other, otherTimes)
			if a.Kept() > capacity {
				t.Fatalf("%d rows are kept in room for %d", a.Kept(), capacity)
			}
			k := 0
			for i, key := range keys {
				if sent[i] {
					take(sum, key, rows[i*each:(i+1)*each])
					pushed[key] += int(times[i])
					k++
				}
			}
			for j, i := range order {
				if sent[i] != other[j] || times[i] != otherTimes[j] || sent[i] && !slices.Equal(rows[i*each:(i+1)*each], shuffled[j*each:(j+1)*each]) {
					t.Fatal("another order, other rows")
				}
			}
			if n > 0 && before+n < capacity && !last && k != portion(n, share) {
				t.Fatalf("%d of %d rows are sent, want %d", k, n, portion(n, share))
			}
		}
		if !maps.EqualFunc(given, sum, slices.Equal) || !maps.Equal(steps, pushed) {
			t.Fatal("what was sent in all is not what was given")
		}
	}
}

// TestForget: nothing is left of what is forgotten, and all of the rest.
func TestForget(t *testing.T) {
	s := NewSparse(0, 1, 1<<20)
	keys, sent := []uint64{1, 2, 3}, make([]bool, 3)
	s.Hold(keys, []float32{1, 2, 3}, sent, make([]uint8, 3))
	s.Forget([]uint64{2, 9})
	got, rows, times := s.Due(true, 0)
	if !slices.Equal(got, []uint64{1, 3}) || !slices.Equal(rows, []float32{1, 3}) || !slices.Equal(times, []uint8{1, 1}) || s.Kept() != 0 {
		t.Errorf("%v, %v are left, and %d", got, rows, s.Kept())
	}
	var d Dense
	grads := []float32{8, 1, 8, 1}
	blocks, at := []Block{{Values: grads[:2]}, {Values: grads[2:]}}, []int{0, 2}
	d.Choose(grads, blocks, at, .5, false)
	d.Forget(blocks[:1], at[:1])
	d.Take(grads)
	if want := []float32{8, 1, 8, 2}; !slices.Equal(grads, want) {
		t.Errorf("%v, want %v: of the second block alone a value was left", grads, want)
	}
}
