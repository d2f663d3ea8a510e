package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"psrt/csrc/seedtest"
)

// twins are the index in C and in Go, and a map that says what they must answer.
type twins struct {
	t    testing.TB
	x    [2]*Index
	want map[uint64]uint32
	free int // segments that each may still take
}

func newTwins(t testing.TB, shift uint, free int) *twins {
	w := &twins{t: t, want: map[uint64]uint32{}, free: free}
	for i := range w.x {
		more, left := segments(t, shift, 0), free
		w.x[i] = NewIndex(7, shift, func() ([]byte, error) {
			if left == 0 {
				return nil, syscall.ENOMEM
			}
			left--
			return more()
		})
	}
	w.x[1].plain = true
	return w
}

func (w *twins) set(keys []uint64, rows []uint32) {
	var n [2]int
	var err [2]error
	for i, x := range w.x {
		if n[i], err[i] = x.Set(keys, rows); err[i] != nil && !errors.Is(err[i], syscall.ENOMEM) {
			w.t.Fatal(err[i])
		}
	}
	if n[0] != n[1] || (err[0] == nil) != (err[1] == nil) || (err[0] == nil) != (n[0] == len(keys)) {
		w.t.Fatalf("set of %d keys: C %d, %v; Go %d, %v", len(keys), n[0], err[0], n[1], err[1])
	}
	for i, k := range keys[:n[0]] {
		w.want[k] = rows[i]
	}
}

// exchange is set that says what the keys had.
func (w *twins) exchange(keys []uint64, rows []uint32) {
	var n [2]int
	before := [2][]uint32{make([]uint32, len(keys)), make([]uint32, len(keys))}
	for i, x := range w.x {
		var err error
		if n[i], err = x.Exchange(keys, rows, before[i]); (err == nil) != (n[i] == len(keys)) || err != nil && !errors.Is(err, syscall.ENOMEM) {
			w.t.Fatalf("twin %d: exchange of %d keys: %d, %v", i, len(keys), n[i], err)
		}
	}
	if n[0] != n[1] {
		w.t.Fatalf("exchange of %d keys: C %d, Go %d", len(keys), n[0], n[1])
	}
	for i, k := range keys[:n[0]] {
		want, ok := w.want[k]
		if !ok {
			want = NoRow
		}
		if before[0][i] != want || before[1][i] != want {
			w.t.Fatalf("key %#x had %d, C says %d and Go %d", k, want, before[0][i], before[1][i])
		}
		w.want[k] = rows[i]
	}
}

func (w *twins) replace(keys []uint64, rows []uint32) {
	want := 0
	for i, k := range keys {
		if _, ok := w.want[k]; ok {
			w.want[k] = rows[i]
			want++
		}
	}
	for i, x := range w.x {
		if n := x.Replace(keys, rows); n != want {
			w.t.Fatalf("replace by twin %d: %d keys, want %d", i, n, want)
		}
	}
}

func (w *twins) delete(keys []uint64) {
	want := 0
	for _, k := range keys {
		if _, ok := w.want[k]; ok {
			delete(w.want, k)
			want++
		}
	}
	for i, x := range w.x {
		if n := x.Delete(keys); n != want {
			w.t.Fatalf("delete by twin %d: %d keys, want %d", i, n, want)
		}
	}
}

func (w *twins) check(keys []uint64) {
	rows := make([]uint32, len(keys))
	for i, x := range w.x {
		x.Find(keys, rows)
		for j, k := range keys {
			want, ok := w.want[k]
			if !ok {
				want = NoRow
			}
			if rows[j] != want {
				w.t.Fatalf("twin %d: key %#x has %d, want %d", i, k, rows[j], want)
			}
		}
		seen := map[uint64]uint32{}
		x.Range(func(k uint64, row uint32) bool { seen[k] = row; return true })
		if x.Len() != len(w.want) || len(seen) != len(w.want) {
			w.t.Fatalf("twin %d: %d keys, range gave %d, want %d", i, x.Len(), len(seen), len(w.want))
		}
		for k, row := range seen {
			if want, ok := w.want[k]; !ok || want != row {
				w.t.Fatalf("twin %d: range gave key %#x with %d, want %d (there: %v)", i, k, row, want, ok)
			}
		}
	}
}

// TestSetAndDelete churns keys of every kind through small segments, sometimes
// with too few of them.
func TestSetAndDelete(t *testing.T) {
	for name, draw := range keySets(7) {
		t.Run(name, func(t *testing.T) {
			r := seedtest.Rand(t)
			for _, free := range []int{3, 9, 1 << 20} {
				w := newTwins(t, uint(2+r.IntN(5)), free)
				for range 120 {
					keys, rows := draws(r, draw)
					switch r.IntN(6) {
					case 0:
						w.replace(keys, rows)
					case 1, 2:
						w.delete(keys)
					case 3:
						w.exchange(keys, rows)
					default:
						w.set(keys, rows)
					}
					w.check(keys)
				}
				for _, x := range w.x {
					x.Reset()
				}
				clear(w.want)
				keys, rows := draws(r, draw)
				w.check(keys)
				w.set(keys, rows)
				w.check(keys)
			}
		})
	}
}

func draws(r *rand.Rand, draw func(r *rand.Rand) uint64) ([]uint64, []uint32) {
	keys, rows := make([]uint64, r.IntN(400)), make([]uint32, 400)
	for i := range keys {
		keys[i], rows[i] = draw(r), r.Uint32()
	}
	return keys, rows
}

// TestDeletedKeysAreSweptAway: however long keys come and go, the memory stays
// what the keys need, and an absent key is found to be absent within few
// buckets.
func TestDeletedKeysAreSweptAway(t *testing.T) {
	const shift, live = 4, 4000
	x := NewIndex(1, shift, segments(t, shift, 0))
	key := []uint64{0}
	row := []uint32{0}
	for n := range uint64(40 * live) {
		key[0] = n
		if _, err := x.Set(key, row); err != nil {
			t.Fatal(err)
		}
		if n >= live {
			key[0] = n - live
			x.Delete(key)
		}
	}
	if x.Len() != live {
		t.Fatalf("%d keys, want %d", x.Len(), live)
	}
	if limit := 24 * live; x.Bytes() > limit {
		t.Errorf("%d bytes for %d keys after many came and went, at most %d", x.Bytes(), live, limit)
	}
	passed := 0
	for which := range x.segs {
		for b := range x.st.buckets[which] {
			if (which == 1 || b >= x.st.swept) && x.at(which, b).meta&passedBit != 0 {
				passed++
			}
		}
	}
	if limit := live / 5; passed > limit {
		t.Errorf("%d buckets are marked as passed, at most %d", passed, limit)
	}
}

// FuzzIndex lets the input say what to do: 1 byte of operation, 1 of key.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("set\x00\x01\x00\x02\x01\x01\x02\x01"))
	r := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		b := make([]byte, 3000)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newTwins(t, 1, 1<<10)
		var all []uint64
		for ; len(b) >= 3; b = b[3:] {
			key := []uint64{uint64(binary.LittleEndian.Uint16(b[1:])) << 48}
			all = append(all, key[0])
			switch b[0] % 4 {
			case 0:
				w.delete(key)
			case 1:
				w.replace(key, []uint32{uint32(len(b))})
			default:
				w.set(key, []uint32{uint32(len(b))})
			}
		}
		w.check(all)
	})
}

func BenchmarkSet(b *testing.B) {
	const n = 1 << 20
	x := NewIndex(1, 14, segments(b, 14, 0))
	r := rand.New(rand.NewPCG(1, 2))
	keys, rows := make([]uint64, n), make([]uint32, n)
	for i := range keys {
		keys[i] = r.Uint64()
	}
	for _, c := range []struct {
		name string
		run  func(keys []uint64)
	}{
		{"insert", func(k []uint64) { x.Set(k, rows) }},
		{"replace", func(k []uint64) { x.Replace(k, rows) }},
		{"find", func(k []uint64) { x.Find(k, rows) }},
		{"delete", func(k []uint64) { x.Delete(k) }},
	} {
		b.Run(fmt.Sprint(c.name), func(b *testing.B) {
			for b.Loop() {
				for at := 0; at < n; at += 4096 {
					c.run(keys[at : at+4096])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/key")
		})
	}
}
