package policy

// window remembers the uses of keys in batches announced and not passed. A use
// is a number; those of one key are chained by batch, and the table finds the
// first of them; those of one batch are chained as they were announced.
type window struct {
	begin, end  uint64             // batches
	first, last [MaxBatches]uint32 // uses of batch b at b mod MaxBatches
	keys        []uint64           // by use
	next        []uint32           // the key's next use, none at the last; of what is free, the next free one
	along       []uint32           // the batch's next use
	batch       []uint8            // mod MaxBatches, plus oneMore for each look-up of other workers; over
	free        uint32
	due         int    // uses that are not over
	begun       uint64 // batches below this one have been looked up, in part at least
	table       refs
}

// A use with manyMore is not over before its batch is: there may be more look-ups
// than are counted. over is a use of which nothing is to come.
const (
	oneMore  = 1 << 6
	manyMore = 3 * oneMore
	over     = oneMore - 1
)

func newWindow(maxUses int) window {
	w := window{keys: make([]uint64, maxUses), next: make([]uint32, maxUses), along: make([]uint32, maxUses), batch: make([]uint8, maxUses)}
	w.table.room(maxUses, w.keys)
	w.empty()
	return w
}

func (w *window) empty() {
	for i := range w.first {
		w.first[i], w.last[i] = none, none
	}
	w.free, w.due, w.begun = none, 0, 0
	for i := len(w.next) - 1; i >= 0; i-- {
		w.next[i] = w.free
		w.free = uint32(i)
	}
}

// batchOf is the batch of a use.
func (w *window) batchOf(ref uint32) uint64 {
	return w.begin + (uint64(w.batch[ref]%oneMore)+MaxBatches-w.begin%MaxBatches)%MaxBatches
}

// nextUse is the batch of a key's next use.
func (w *window) nextUse(key uint64) (batch uint64, ok bool) {
	if w.due == 0 { // while a model is loaded
		return 0, false
	}
	ref := w.table.find(w.keys, key)
	if ref == none {
		return 0, false
	}
	return w.batchOf(ref), true
}

// open makes room for a batch, if it may be announced.
func (w *window) open(batch uint64) bool {
	if w.begin == w.end && batch >= w.begin+MaxBatches {
		w.begin, w.end = batch, batch
	}
	if batch < w.begin || batch-w.begin >= MaxBatches || len(w.keys) == 0 {
		return false
	}
	w.end = max(w.end, batch+1)
	return true
}

// add notes that an open batch uses key; a batch may use it once. ok says that
// there was room, sooner that no earlier use was known.
func (w *window) add(batch uint64, key uint64) (ok, sooner bool) {
	mod := uint8(batch % MaxBatches)
	before, after := none, w.table.find(w.keys, key)
	for after != none && w.batchOf(after) <= batch {
		if b := &w.batch[after]; *b%oneMore == mod {
			if *b < manyMore {
				*b += oneMore
			}
			return true, false
		}
		before, after = after, w.next[after]
	}
	ref := w.free
	if ref == none {
		return false, false
	}
	w.free = w.next[ref]
	w.due++
	w.keys[ref], w.next[ref], w.along[ref], w.batch[ref] = key, after, none, mod
	if last := w.last[mod]; last == none {
		w.first[mod] = ref
	} else {
		w.along[last] = ref
	}
	w.last[mod] = ref
	if before != none {
		w.next[before] = ref
		return true, false
	}
	w.table.set(w.keys, ref)
	return true, true
}

// after copies to dst keys of a batch behind the use at, none for all, and says
// which the last one was.
func (w *window) after(batch uint64, at uint32, dst []uint64) (n int, last uint32) {
	if batch < w.begin || batch >= w.end {
		return 0, at
	}
	ref := w.first[batch%MaxBatches]
	if at != none {
		ref = w.along[at]
	}
	for ; n < len(dst) && ref != none; at, ref = ref, w.along[ref] {
		if w.batch[ref] != over {
			dst[n] = w.keys[ref]
			n++
		}
	}
	return n, at
}

// drop has a key's first use be over: the next one takes its place in the table.
func (w *window) drop(ref uint32) {
	if next := w.next[ref]; next != none {
		w.table.set(w.keys, next)
	} else {
		w.table.remove(w.keys, w.keys[ref])
	}
	w.batch[ref] = over
	w.due--
}

// look counts a look-up of a key, and says whether its next use is another one now.
func (w *window) look(key uint64) bool {
	ref := w.table.find(w.keys, key)
	if ref == none {
		return false
	}
	w.begun = max(w.begun, w.batchOf(ref)+1)
	if b := &w.batch[ref]; *b >= manyMore {
		return false
	} else if *b >= oneMore {
		*b -= oneMore
		return false
	}
	w.drop(ref)
	return true
}

// pass ends uses of the first batch, and copies their keys to dst. When there are
// none left, it ends the batch.
func (w *window) pass(dst []uint64) (n int) {
	mod := w.begin % MaxBatches
	for n < len(dst) && w.first[mod] != none {
		ref := w.first[mod]
		if w.batch[ref] != over {
			w.drop(ref)
			dst[n] = w.keys[ref]
			n++
		}
		w.first[mod] = w.along[ref]
		w.next[ref], w.free = w.free, ref
	}
	if n == 0 {
		w.last[mod] = none
		w.begin++
	}
	return n
}

// skip has batches below this one count as passed, announced or not.
func (w *window) skip(batch uint64) {
	if w.begin == w.end && batch > w.end {
		w.begin, w.end = batch, batch
	}
}

func (w *window) reset() {
	w.begin, w.end = 0, 0
	w.table.reset()
	w.empty()
}

func (w *window) bytes() int64 {
	return 8*int64(cap(w.keys)) + 4*int64(cap(w.next)+cap(w.along)) + int64(cap(w.batch)) + w.table.bytes()
}
