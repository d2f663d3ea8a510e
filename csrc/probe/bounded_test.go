package probe

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
)

// image is what another memory has of an index, searched as a GPU does.
type image struct {
	f      *Bounded
	memory []byte
}

func (m *image) update(r *rand.Rand) {
	for m.f.Changed() > 0 {
		at := make([]uint32, 1+r.IntN(40))
		bytes := make([]byte, len(at)*BucketBytes)
		n := m.f.Take(at, bytes)
		for i, b := range at[:n] {
			copy(m.memory[int(b)*BucketBytes:], bytes[i*BucketBytes:(i+1)*BucketBytes])
		}
	}
}

func (m *image) find(key uint64) uint32 {
	var x Index
	seed, homes, buckets := m.f.Hash()
	x.segs[0] = []*bucket{asBucket(m.memory)}
	x.st = m.f.x.st
	x.st.seed, x.st.homes[0], x.st.buckets[0] = seed, uint64(homes), uint64(buckets)
	return x.plainFind(key, mix(key^seed))
}

// TestBounded: an index and its image have what a map has, whatever comes and goes,
// and where keys often pass the last bucket.
func TestBounded(t *testing.T) {
	r := seedtest.Rand(t)
	for _, tail := range []int{1, boundedTail} {
		for range 30 {
			most := 1 + r.IntN(300)
			bytes := (most/boundedKeys + 1 + tail) * BucketBytes
			f := newBounded(r.Uint64(), most, tail, segment(t, bytes))
			m := &image{f, segment(t, bytes)}
			ref := map[uint64]uint32{}
			first, _, _ := f.Hash()
			for step := range 3000 {
				key := r.Uint64N(uint64(2*most)) * 0x9e3779b97f4a7c15
				_, had := ref[key]
				switch {
				case r.IntN(3) == 0:
					if f.Delete(key) != had {
						t.Fatalf("deleting a key that was there %v says otherwise", had)
					}
					delete(ref, key)
				default:
					row := r.Uint32N(1 << 30)
					err := f.Set(key, row)
					if full := !had && len(ref) == most; full != errors.Is(err, ErrFull) {
						t.Fatalf("%d keys of %d, one more: %v", len(ref), most, err)
					}
					if err == nil {
						ref[key] = row
					}
				}
				if step == 2000 {
					f.Reset()
					clear(ref)
				}
				if f.Len() != len(ref) {
					t.Fatalf("%d keys, want %d", f.Len(), len(ref))
				}
				if step%100 == 99 {
					m.update(r)
					same(t, f, m, ref, 2*most)
				}
			}
			for key := range ref {
				f.Delete(key)
			}
			for b := range f.x.st.buckets[0] {
				if meta := f.x.at(0, b).meta; meta != 0 {
					t.Fatalf("bucket %d of an empty index has %#x", b, meta)
				}
			}
			if seed, _, _ := f.Hash(); seed != first {
				t.Logf("%d keys, tail %d: built anew", most, tail)
			}
		}
	}
}

// segment is memory of a mapping of its own.
func segment(t *testing.T, size int) []byte {
	m, err := segments(t, uint(bits.Len(uint(size/BucketBytes))), 0)()
	if err != nil {
		t.Fatal(err)
	}
	return m[:size]
}

func same(t *testing.T, f *Bounded, m *image, ref map[uint64]uint32, keys int) {
	t.Helper()
	all, rows := make([]uint64, keys), make([]uint32, keys)
	for i := range all {
		all[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	f.Find(all, rows)
	for i, key := range all {
		want, ok := ref[key]
		if !ok {
			want = NoRow
		}
		if rows[i] != want || m.find(key) != want {
			t.Fatalf("key %#x: row %d, in the image %d, want %d", key, rows[i], m.find(key), want)
		}
	}
}
