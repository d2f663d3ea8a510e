package probe

import "fmt"

const (
	slotsPerBucket = 5
	takenMask      = 1<<slotsPerBucket - 1
	passedBit      = 1 << slotsPerBucket
	noRow          = NoRow
	firstHomes     = 64 // a new index touches one page
	sweepHomes     = 4  // homes moved per insertion while growing
	fullHome       = KeysPerHome
	// KeysPerHome is how many keys a bucket has room for before the index grows.
	KeysPerHome = 4
	// NoRow is what Find answers for a key that is not there.
	NoRow = ^uint32(0)
	// BucketBytes is the size of a bucket, one cache line.
	BucketBytes = 64
)

// bucket is one cache line of the index; its layout is index.h's psrt_bucket.
type bucket struct {
	keys [slotsPerBucket]uint64
	rows [slotsPerBucket]uint32
	meta uint32
}

// state is what C works on; its layout is index.h's psrt_index.
type state struct {
	seed              uint64
	homes, buckets    [2]uint64
	swept             uint64
	count             uint64
	deleted           uint64
	nextRow, rowLimit uint64
	segShift          uint32
	halfway           uint32
}

type status int32

const (
	done status = iota
	needOld
	needNew
	needRows
	needGrowth
)

// Index maps keys to numbers: Upsert's, 0, 1, 2 ... in the order of insertion, or
// those that Set is given. Not safe for concurrent use.
type Index struct {
	st        state
	segs      [2][]*bucket // [1] while growing
	reclaimed int          // leading segments of [0] that the growing table has taken
	spare     []*bucket
	taken     int // segments got from the caller
	segment   func() ([]byte, error)
	plain     bool // use the Go twin
	portable  bool // use the C loop for any machine; for tests
}

// NewIndex makes an empty index whose hash depends on seed. segment gives
// memory for 2^segShift buckets: zeroed, aligned to 64 bytes, outside the Go
// heap, and in place until the index is dropped. It is called from Upsert, one
// segment at a time.
func NewIndex(seed uint64, segShift uint, segment func() ([]byte, error)) *Index {
	x := &Index{segment: segment}
	x.st.seed, x.st.segShift, x.st.homes[0] = mix(seed), uint32(segShift), firstHomes
	return x
}

// Reserve opens an empty index at the size that so many keys need, so that it does
// not grow while they come. An index with keys stays as it is.
func (x *Index) Reserve(keys int) {
	homes := uint64(keys)/fullHome + 1
	if x.st.count == 0 && x.st.deleted == 0 && x.st.homes[1] == 0 && homes > x.st.homes[0] {
		x.st.homes[0] = homes
	}
}

// Len is the number of keys.
func (x *Index) Len() int { return int(x.st.count) }

// Bytes is the memory taken from the caller, spare segments included.
func (x *Index) Bytes() int { return x.taken << x.st.segShift * BucketBytes }

// Most bounds the segments that the index will have got from the caller, those it has
// among them, when so many keys more have come.
func (x *Index) Most(more int) int {
	h, size := max(x.st.homes[0], x.st.homes[1]), uint64(1)<<x.st.segShift
	grows := x.st.homes[1] != 0
	for count := x.st.count + uint64(more); count >= fullHome*h; grows = true {
		h += max(h/8, min(h, size/2))
	}
	passed := 16 + min(h/16, 256) // buckets behind the last home, of keys that passed it
	most := int((h + passed + size - 1) / size)
	if grows || x.st.deleted > 0 { // what was before goes segment by segment
		most += int(min(2, (x.st.homes[0]+passed+size-1)/size))
	}
	return max(most, x.taken)
}

// Find writes the row of each key to rows, or ^uint32(0) for a key that is not
// there.
func (x *Index) Find(keys []uint64, rows []uint32) {
	if len(rows) < len(keys) {
		panic(fmt.Sprintf("probe: find of %d keys with room for %d rows", len(keys), len(rows)))
	}
	if len(keys) > 0 {
		x.find(keys, rows)
	}
}

// Upsert is Find, except that absent keys are inserted, with row numbers below
// rowLimit. It answers answered keys from the front and inserted created of
// them, whose keys it wrote to fresh in the order of their rows. answered is
// less than len(keys) without an error when the next key needs row rowLimit:
// call again with the rest. An error comes from segment; the keys answered
// before it stay, and the index goes on serving.
func (x *Index) Upsert(keys []uint64, rows []uint32, fresh []uint64, rowLimit int) (answered, created int, err error) {
	if len(rows) < len(keys) || len(fresh) < len(keys) {
		panic(fmt.Sprintf("probe: upsert of %d keys with room for %d rows and %d new keys", len(keys), len(rows), len(fresh)))
	}
	x.st.rowLimit = uint64(rowLimit)
	for answered < len(keys) && err == nil {
		n, c, why := x.upsert(keys[answered:], rows[answered:], fresh[created:])
		answered, created = answered+n, created+c
		switch why {
		case needRows:
			return answered, created, nil
		case needOld:
			err = x.extend(0)
		case needNew:
			err = x.extend(1)
		case needGrowth:
			err = x.grow()
		}
	}
	return answered, created, err
}

// Set gives each key its number, inserting keys that are absent; of a key that
// comes twice the last counts. An error comes from the memory for segments: the
// answered keys at the front are set, and the index goes on serving.
func (x *Index) Set(keys []uint64, rows []uint32) (answered int, err error) {
	if len(rows) < len(keys) {
		panic(fmt.Sprintf("probe: set of %d keys with %d rows", len(keys), len(rows)))
	}
	return x.exchange(keys, rows, nil)
}

// Exchange is Set that writes to before what each answered key had until then,
// NoRow where it was absent.
func (x *Index) Exchange(keys []uint64, rows, before []uint32) (answered int, err error) {
	if len(rows) < len(keys) || len(before) < len(keys) {
		panic(fmt.Sprintf("probe: exchange of %d keys with %d rows and room for %d", len(keys), len(rows), len(before)))
	}
	return x.exchange(keys, rows, before)
}

// exchange is Exchange with a before that may be nil.
func (x *Index) exchange(keys []uint64, rows, before []uint32) (answered int, err error) {
	for answered < len(keys) && err == nil {
		n, why := x.set(keys[answered:], rows[answered:], before)
		answered += n
		if before != nil {
			before = before[n:]
		}
		switch why {
		case needOld:
			err = x.extend(0)
		case needNew:
			err = x.extend(1)
		case needGrowth:
			err = x.grow()
		}
	}
	return answered, err
}

// Replace is Set for the keys that are there, and counts them. It needs no
// memory.
func (x *Index) Replace(keys []uint64, rows []uint32) (replaced int) {
	if len(rows) < len(keys) {
		panic(fmt.Sprintf("probe: replace of %d keys with %d rows", len(keys), len(rows)))
	}
	if len(keys) == 0 {
		return 0
	}
	return x.replace(keys, rows)
}

// Delete removes keys and counts those that were there. The memory is kept for
// later keys.
func (x *Index) Delete(keys []uint64) (deleted int) {
	if len(keys) == 0 {
		return 0
	}
	return x.remove(keys)
}

// extend gives the table one more segment: one that the sweep has emptied, a
// spare one, or a new one.
func (x *Index) extend(which int) error {
	var seg *bucket
	switch {
	case which == 1 && x.reclaimed < len(x.segs[0]) && uint64(x.reclaimed+1)<<x.st.segShift <= x.st.swept:
		seg = x.segs[0][x.reclaimed]
		x.reclaimed++
	case len(x.spare) > 0:
		seg = x.spare[len(x.spare)-1]
		x.spare = x.spare[:len(x.spare)-1]
	default:
		b, err := x.segment()
		if err != nil {
			return err
		}
		if len(b) != BucketBytes<<x.st.segShift {
			panic(fmt.Sprintf("probe: a segment of %d bytes, want %d", len(b), BucketBytes<<x.st.segShift))
		}
		seg = asBucket(b)
		x.taken++
	}
	x.segs[which] = append(x.segs[which], seg)
	x.st.buckets[which] += 1 << x.st.segShift
	return nil
}

// grow ends the growth under way, if any, and begins the next when the index
// is full.
func (x *Index) grow() error {
	if x.st.homes[1] != 0 {
		for x.sweep(int(x.st.homes[0])) == needNew {
			if err := x.extend(1); err != nil {
				return err
			}
		}
		x.swap()
	}
	h := x.st.homes[0]
	switch {
	case x.st.count >= fullHome*h:
		x.st.homes[1] = h + max(h/8, min(h, 1<<x.st.segShift/2))
	case x.st.deleted >= h:
		// Room for the keys there are and for those that come during the sweep.
		x.st.homes[1] = max(firstHomes, (x.st.count+h/sweepHomes)/fullHome+1)
	default:
		return nil
	}
	x.st.deleted = 0
	return nil
}

// swap makes the grown table the one in use.
func (x *Index) swap() {
	// Behind the last home lie marks of keys that passed it.
	for b := x.st.homes[0]; b < x.st.buckets[0]; b++ {
		x.at(0, b).meta = 0
	}
	x.spare = append(x.spare, x.segs[0][x.reclaimed:]...)
	x.segs[0], x.segs[1] = x.segs[1], x.segs[0][:0]
	x.st.homes = [2]uint64{x.st.homes[1], 0}
	x.st.buckets = [2]uint64{x.st.buckets[1], 0}
	x.st.swept, x.reclaimed = 0, 0
}

// Range calls f for every key until it returns false. The order depends on the
// history of the index. f must not change it.
func (x *Index) Range(f func(key uint64, row uint32) bool) {
	for which := range x.segs {
		first := uint64(0)
		if which == 0 {
			first = x.st.swept
		}
		for b := first; b < x.st.buckets[which]; b++ {
			p := x.at(which, b)
			for i := range slotsPerBucket {
				if p.meta>>i&1 != 0 && !f(p.keys[i], p.rows[i]) {
					return
				}
			}
		}
	}
}

// Reset forgets all keys and keeps the memory. Rows are numbered from 0 again.
func (x *Index) Reset() {
	for which := range x.segs {
		for b := uint64(0); b < x.st.buckets[which]; b++ {
			if which == 1 || b>>x.st.segShift >= uint64(x.reclaimed) {
				x.at(which, b).meta = 0
			}
		}
	}
	x.spare = append(x.spare, x.segs[0][x.reclaimed:]...)
	x.spare = append(x.spare, x.segs[1]...)
	x.segs[0], x.segs[1] = x.segs[0][:0], x.segs[1][:0]
	x.st = state{seed: x.st.seed, segShift: x.st.segShift, homes: [2]uint64{firstHomes, 0}}
	x.reclaimed = 0
}
