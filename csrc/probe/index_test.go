package probe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"psrt/csrc/seedtest"
)

// unmix undoes mix, to make keys that collide.
func unmix(x uint64) uint64 {
	inverse := func(a uint64) uint64 { // of an odd number mod 2^64, by Newton
		y := a
		for range 6 {
			y *= 2 - a*y
		}
		return y
	}
	unshift := func(x uint64, n int) uint64 {
		y := x
		for range 3 {
			y = x ^ y>>n
		}
		return y
	}
	x = unshift(x, 31) * inverse(0x94d049bb133111eb)
	x = unshift(x, 27) * inverse(0xbf58476d1ce4e5b9)
	return unshift(x, 30) - 0x9e3779b97f4a7c15
}

func TestUnmix(t *testing.T) {
	r := seedtest.Rand(t)
	for range 1000 {
		if x := r.Uint64(); unmix(mix(x)) != x || mix(unmix(x)) != x {
			t.Fatalf("unmix is not the inverse of mix at %#x", x)
		}
	}
}

// reference is the second opinion: a Go map.
type reference struct {
	rows map[uint64]uint32
	keys []uint64
}

func (ref *reference) upsert(keys []uint64) (rows []uint32, created int) {
	for _, k := range keys {
		row, ok := ref.rows[k]
		if !ok {
			row = uint32(len(ref.keys))
			ref.rows[k], ref.keys = row, append(ref.keys, k)
			created++
		}
		rows = append(rows, row)
	}
	return rows, created
}

func (ref *reference) check(t *testing.T, x *Index, r *rand.Rand) {
	t.Helper()
	if x.Len() != len(ref.keys) {
		t.Fatalf("%d keys, want %d", x.Len(), len(ref.keys))
	}
	keys := slices.Clone(ref.keys)
	for range 100 {
		keys = append(keys, r.Uint64())
	}
	rows := make([]uint32, len(keys))
	for _, x.portable = range []bool{true, false} {
		x.Find(keys, rows)
		for i, k := range keys {
			want, ok := ref.rows[k]
			if !ok {
				want = noRow
			}
			if rows[i] != want {
				t.Fatalf("key %#x: row %d, want %d (portable: %v)", k, rows[i], want, x.portable)
			}
		}
	}
	seen := map[uint64]bool{}
	x.Range(func(key uint64, row uint32) bool {
		if want, ok := ref.rows[key]; !ok || want != row || seen[key] {
			t.Fatalf("range gave key %#x row %d (again: %v), want row %d", key, row, seen[key], want)
		}
		seen[key] = true
		return true
	})
	if len(seen) != len(ref.keys) {
		t.Fatalf("range gave %d keys of %d", len(seen), len(ref.keys))
	}
}

// keySets are ways to draw keys, fair and unfair.
func keySets(seed uint64) map[string]func(r *rand.Rand) uint64 {
	s := mix(seed)
	ends := []uint64{0, ^uint64(0), 1, ^uint64(0) - 1, 1 << 63}
	return map[string]func(r *rand.Rand) uint64{
		"uniform":    func(r *rand.Rand) uint64 { return r.Uint64() },
		"sequential": func(r *rand.Rand) uint64 { return r.Uint64N(100000) },
		"shifted":    func(r *rand.Rand) uint64 { return r.Uint64N(20000) << 44 },
		"ends":       func(r *rand.Rand) uint64 { return ends[r.IntN(len(ends))] ^ r.Uint64N(3) },
		"first home": func(r *rand.Rand) uint64 { return unmix(r.Uint64N(1500)) ^ s },
		"last home":  func(r *rand.Rand) uint64 { return unmix(^r.Uint64N(1500)) ^ s },
		"one home":   func(r *rand.Rand) uint64 { return unmix(1<<61+r.Uint64N(700)) ^ s },
	}
}

// TestIndex holds C and the Go twin to a map while they grow, with segments so
// small that every path of the growth is taken.
func TestIndex(t *testing.T) {
	for _, plain := range []bool{false, true} {
		for name, draw := range keySets(7) {
			t.Run(fmt.Sprintf("%s plain=%v", name, plain), func(t *testing.T) {
				r := seedtest.Rand(t)
				for _, shift := range []uint{2, 6, 10} {
					x := NewIndex(7, shift, segments(t, shift, 0))
					x.plain = plain
					x.Reserve(r.IntN(3) * r.IntN(10000))
					ref := &reference{rows: map[uint64]uint32{}}
					for step := range 60 {
						keys := make([]uint64, r.IntN(300))
						for i := range keys {
							keys[i] = draw(r)
						}
						rows, fresh := make([]uint32, len(keys)), make([]uint64, len(keys))
						before := len(ref.keys)
						n, created, err := x.Upsert(keys, rows, fresh, 1<<30)
						want, wantCreated := ref.upsert(keys)
						if err != nil || n != len(keys) || created != wantCreated || !slices.Equal(rows, want) || !slices.Equal(fresh[:created], ref.keys[before:]) {
							t.Fatalf("step %d: %d of %d keys, %d created (want %d), %v", step, n, len(keys), created, wantCreated, err)
						}
						if step%20 == 19 {
							ref.check(t, x, r)
						}
					}
					x.Reset()
					(&reference{rows: map[uint64]uint32{}}).check(t, x, r)
				}
			})
		}
	}
}

// TestReserve: so many keys come without a growth, and then it goes on.
func TestReserve(t *testing.T) {
	r := seedtest.Rand(t)
	const n, shift = 50_000, 10
	for _, reused := range []bool{false, true} {
		x := NewIndex(9, shift, segments(t, shift, 0))
		keys, rows, fresh := make([]uint64, n), make([]uint32, n), make([]uint64, n)
		for i := range keys {
			keys[i] = r.Uint64()
		}
		if reused {
			if _, _, err := x.Upsert(keys[:n/3], rows, fresh, n); err != nil {
				t.Fatal(err)
			}
			x.Reset()
		}
		x.Reserve(n)
		homes := x.st.homes[0]
		ref := &reference{rows: map[uint64]uint32{}}
		for at := 0; at < n; at += n / 10 {
			if _, _, err := x.Upsert(keys[at:at+n/10], rows, fresh, n); err != nil {
				t.Fatal(err)
			}
			ref.upsert(keys[at : at+n/10])
		}
		if x.st.homes != [2]uint64{homes, 0} {
			t.Errorf("homes %v, reserved were %d", x.st.homes, homes)
		}
		x.Reserve(10 * n) // it is not empty
		if most := n * 18; x.Bytes() > most {
			t.Errorf("%d bytes for %d keys, want at most %d", x.Bytes(), n, most)
		}
		for i := range keys {
			keys[i] = r.Uint64()
		}
		if _, _, err := x.Upsert(keys, rows, fresh, 2*n); err != nil {
			t.Fatal(err)
		}
		ref.upsert(keys)
		ref.check(t, x, r)
	}
}

// TestRowLimit: Upsert stops before the row it may not use, and goes on.
func TestRowLimit(t *testing.T) {
	x := NewIndex(1, 6, segments(t, 6, 0))
	keys := []uint64{10, 11, 10, 12, 11, 13}
	rows, fresh := make([]uint32, 6), make([]uint64, 6)
	if n, created, err := x.Upsert(keys, rows, fresh, 2); n != 3 || created != 2 || err != nil {
		t.Fatalf("with 2 rows: %d keys, %d created, %v; want 3, 2, nil", n, created, err)
	}
	if n, created, err := x.Upsert(keys[3:], rows[3:], fresh, 9); n != 3 || created != 2 || err != nil {
		t.Fatalf("with 9 rows: %d keys, %d created, %v; want 3, 2, nil", n, created, err)
	}
	if want := []uint32{0, 1, 0, 2, 1, 3}; !slices.Equal(rows, want) {
		t.Fatalf("rows %v, want %v", rows, want)
	}
}

// TestNoMemory: whenever segments run out, also in the middle of a move, all
// keys answered so far are found, and the index goes on when there are more.
func TestNoMemory(t *testing.T) {
	r := seedtest.Rand(t)
	for _, plain := range []bool{false, true} {
		for limit := 1; limit <= 60; limit++ {
			const shift = 3
			more := segments(t, shift, 0)
			have := limit
			x := NewIndex(3, shift, func() ([]byte, error) {
				if have == 0 {
					return nil, syscall.ENOMEM
				}
				have--
				return more()
			})
			x.plain = plain
			ref := &reference{rows: map[uint64]uint32{}}
			keys := make([]uint64, 3000)
			for i := range keys {
				keys[i] = r.Uint64()
			}
			rows, fresh := make([]uint32, len(keys)), make([]uint64, len(keys))
			n, created, err := x.Upsert(keys, rows, fresh, 1<<30)
			if !errors.Is(err, syscall.ENOMEM) || n != created {
				t.Fatalf("%d segments: %d keys, %d created, %v", limit, n, created, err)
			}
			ref.upsert(keys[:n])
			ref.check(t, x, r)
			have = 1000
			if _, _, err := x.Upsert(keys[n:], rows[n:], fresh, 1<<30); err != nil {
				t.Fatal(err)
			}
			ref.upsert(keys[n:])
			ref.check(t, x, r)
		}
	}
}

// TestBytesPerKey holds the index to its size while it grows: never more than
// 18 bytes a key and a few segments.
func TestBytesPerKey(t *testing.T) {
	const shift = 8
	x := NewIndex(1, shift, segments(t, shift, 0))
	const batch = 1000
	keys, rows, fresh := make([]uint64, batch), make([]uint32, batch), make([]uint64, batch)
	sum, samples := 0.0, 0
	for n := 0; n < 400000; n += batch {
		for i := range keys {
			keys[i] = uint64(n + i)
		}
		if _, _, err := x.Upsert(keys, rows, fresh, 1<<30); err != nil {
			t.Fatal(err)
		}
		if allowed := 18*x.Len() + 4*BucketBytes<<shift + 2*firstHomes*BucketBytes; x.Bytes() > allowed {
			t.Fatalf("%d bytes for %d keys, at most %d allowed", x.Bytes(), x.Len(), allowed)
		}
		if n > 200000 {
			sum += float64(x.Bytes()) / float64(x.Len())
			samples++
		}
	}
	t.Logf("%.1f bytes a key on average", sum/float64(samples))
	if a := testing.AllocsPerRun(10, func() { x.Upsert(keys, rows, fresh, 1<<30); x.Find(keys, rows) }); a != 0 {
		t.Errorf("%v allocations a batch of known keys", a)
	}
}
