package probe

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// ErrFull is a Bounded index that has all keys it was made for.
var ErrFull = errors.New("probe: the index is full")

// Bounded is an index of so many keys at most, in one piece of memory of which
// another, a GPU's, has an image: what has changed since the image was brought up to
// date is a list of buckets. It never grows. A bucket counts the keys that went past it,
// in the bits of meta above passedBit, so that deletions leave no marks and nothing has
// ever to be swept. Not safe for concurrent use.
type Bounded struct {
	x       Index
	memory  []byte
	most    int
	count   int
	seeds   *rand.Rand
	listed  []bool   // by bucket
	changed []uint32 // buckets, each once
}

// passedOne is one key in a bucket's count of those that went past it.
const passedOne = passedBit << 1

// Three keys a bucket of five: few go past their home, which costs a GPU's lookup
// another trip to its memory. Behind the last home a few buckets take what passes it.
const (
	boundedKeys = 3
	boundedTail = 4
	// seedsMost bounds the hashes tried until no key passes the last bucket. One is
	// all it takes, but for luck of one in many millions.
	seedsMost = 1000
)

// BoundedBuckets is how many buckets an index of so many keys has.
func BoundedBuckets(keys int) int { return keys/boundedKeys + 1 + boundedTail }

// NewBounded makes an empty index for keys at most in memory, which is zeroed,
// aligned to BucketBytes, outside the Go heap, and BoundedBuckets(keys) x BucketBytes
// long. The hash depends on seed.
func NewBounded(seed uint64, keys int, memory []byte) *Bounded {
	return newBounded(seed, keys, boundedTail, memory)
}

func newBounded(seed uint64, keys, tail int, memory []byte) *Bounded {
	homes := keys/boundedKeys + 1
	n := homes + tail
	if len(memory) != n*BucketBytes {
		panic(fmt.Sprintf("probe: an index of %d keys in %d bytes, want %d", keys, len(memory), n*BucketBytes))
	}
	f := &Bounded{memory: memory, most: keys, listed: make([]bool, n), seeds: rand.New(rand.NewPCG(seed, 0))}
	f.x.segs[0] = []*bucket{asBucket(memory)}
	f.x.st.seed, f.x.st.segShift = mix(seed), uint32(bits.Len(uint(n)))
	f.x.st.homes[0], f.x.st.buckets[0] = uint64(homes), uint64(n)
	return f
}

// Len is the number of keys.
func (f *Bounded) Len() int { return f.count }

// Bytes is the memory that the index is in.
func (f *Bounded) Bytes() int { return len(f.memory) + 5*len(f.listed) }

// Find writes the row of each key to rows, NoRow for a key that is not there.
func (f *Bounded) Find(keys []uint64, rows []uint32) { f.x.Find(keys, rows) }

// Hash is what the home of a key follows from: bucket mix(key ^ seed) x homes / 2^64, of
// buckets. It changes where the index had to be built anew.
func (f *Bounded) Hash() (seed uint64, homes, buckets int) {
	return f.x.st.seed, int(f.x.st.homes[0]), int(f.x.st.buckets[0])
}

// bucketOf is where a key is, slot i of bucket b; ok is false where it is not.
func (f *Bounded) bucketOf(key uint64) (b uint64, i int, ok bool) {
	for b := f.x.home(0, mix(key^f.x.st.seed)); b < f.x.st.buckets[0]; b++ {
		p := f.x.at(0, b)
		for i := range slotsPerBucket {
			if p.meta>>i&1 != 0 && p.keys[i] == key {
				return b, i, true
			}
		}
		if p.meta&passedBit == 0 {
			break
		}
	}
	return 0, 0, false
}

func (f *Bounded) note(b uint64) {
	if !f.listed[b] {
		f.listed[b] = true
		f.changed = append(f.changed, uint32(b))
	}
}

// Set gives a key its row, ErrFull where there are as many others as there may be.
func (f *Bounded) Set(key uint64, row uint32) error {
	if b, i, ok := f.bucketOf(key); ok {
		f.x.at(0, b).rows[i] = row
		f.note(b)
		return nil
	}
	if f.count == f.most {
		return fmt.Errorf("%w: %d keys", ErrFull, f.count)
	}
	if !f.insert(key, row) && !f.rebuild(key, row) {
		return fmt.Errorf("%w: with %d keys of %d, by any of %d hashes", ErrFull, f.count, f.most, seedsMost)
	}
	f.count++
	return nil
}

// insert puts an absent key into the first bucket from its home on that has room;
// false: none has.
func (f *Bounded) insert(key uint64, row uint32) bool {
	home := f.x.home(0, mix(key^f.x.st.seed))
	b := home
	for ; b < f.x.st.buckets[0] && f.x.at(0, b).meta&takenMask == takenMask; b++ {
	}
	if b == f.x.st.buckets[0] {
		return false
	}
	p := f.x.at(0, b)
	i := bits.TrailingZeros32(^p.meta & takenMask)
	p.keys[i], p.rows[i] = key, row
	p.meta |= 1 << i
	f.note(b)
	for ; home < b; home++ {
		p := f.x.at(0, home)
		if p.meta&passedBit == 0 {
			f.note(home)
		}
		p.meta = (p.meta | passedBit) + passedOne
	}
	return true
}

// rebuild begins again with other hashes until all keys, and one more, have room.
func (f *Bounded) rebuild(key uint64, row uint32) bool {
	keys, rows := []uint64{key}, []uint32{row}
	f.Range(func(k uint64, r uint32) { keys, rows = append(keys, k), append(rows, r) })
	was := f.x.st.seed
	for range seedsMost {
		f.clear()
		f.x.st.seed = f.seeds.Uint64()
		if f.insertAll(keys, rows) {
			return true
		}
	}
	f.clear()
	f.x.st.seed = was
	f.insertAll(keys[1:], rows[1:]) // as it was: by that hash they had room
	return false
}

func (f *Bounded) insertAll(keys []uint64, rows []uint32) bool {
	for i, k := range keys {
		if !f.insert(k, rows[i]) {
			return false
		}
	}
	return true
}

func (f *Bounded) clear() {
	for b := range f.x.st.buckets[0] {
		f.x.at(0, b).meta = 0
		f.note(b)
	}
}

// Delete removes a key, and says whether it was there.
func (f *Bounded) Delete(key uint64) bool {
	b, i, ok := f.bucketOf(key)
	if !ok {
		return false
	}
	f.x.at(0, b).meta &^= 1 << i
	f.note(b)
	f.count--
	for home := f.x.home(0, mix(key^f.x.st.seed)); home < b; home++ {
		p := f.x.at(0, home)
		if p.meta -= passedOne; p.meta < passedOne {
			p.meta &^= passedBit
			f.note(home)
		}
	}
	return true
}

// Range calls f for every key.
func (f *Bounded) Range(each func(key uint64, row uint32)) {
	f.x.Range(func(k uint64, r uint32) bool { each(k, r); return true })
}

// Reset forgets all keys.
func (f *Bounded) Reset() {
	f.clear()
	f.count = 0
}

// Changed is how many buckets an image lacks.
func (f *Bounded) Changed() int { return len(f.changed) }

// Take is the next changes of an image: the numbers of as many buckets as at has room
// for, each once, and what is in them now, BucketBytes each. An image begins as zeros.
func (f *Bounded) Take(at []uint32, images []byte) (n int) {
	n = min(len(at), len(f.changed))
	for i, b := range f.changed[len(f.changed)-n:] {
		at[i] = b
		copy(images[i*BucketBytes:(i+1)*BucketBytes], f.memory[int(b)*BucketBytes:])
		f.listed[b] = false
	}
	f.changed = f.changed[:len(f.changed)-n]
	return n
}
