package policy

// window remembers the uses of keys in batches announced and not passed. Uses
// lie in a ring in the order of announcement; the uses of one key are chained,
// and the table finds the first.
type window struct {
	begin, end uint64                 // batches
	from       [MaxBatches + 1]uint64 // first use of batch b at b mod (MaxBatches + 1); that of end is the end
	keys       []uint64               // by use, mod len
	next       []uint32               // the key's next use, none at the last
	table      refs
}

func newWindow(maxUses int) window {
	w := window{keys: make([]uint64, maxUses), next: make([]uint32, maxUses)}
	w.table.room(maxUses, w.keys)
	return w
}

func (w *window) use(batch uint64) *uint64 { return &w.from[batch%uint64(len(w.from))] }

// batchOf is the batch of the use at a place of the ring.
func (w *window) batchOf(ref uint32) uint64 {
	size := uint64(len(w.keys))
	first := *w.use(w.begin)
	at := first + (uint64(ref)+size-first%size)%size
	lo, hi := w.begin, w.end-1
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if *w.use(mid) <= at {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// first is the batch of a key's next use.
func (w *window) first(key uint64) (batch uint64, ok bool) {
	ref := w.table.find(w.keys, key)
	if ref == none {
		return 0, false
	}
	return w.batchOf(ref), true
}

func (w *window) add(batch uint64, keys []uint64) int {
	if w.begin == w.end {
		at := *w.use(w.end)
		w.begin, w.end = batch, batch
		*w.use(batch) = at
	}
	if batch < w.end || batch-w.begin >= MaxBatches || len(w.keys) == 0 {
		return 0
	}
	for w.end < batch { // batches of which nothing is known
		*w.use(w.end + 1) = *w.use(w.end)
		w.end++
	}
	at := *w.use(w.end)
	size := uint64(len(w.keys))
	keys = keys[:min(uint64(len(keys)), size-(at-*w.use(w.begin)))]
	for _, key := range keys {
		ref := uint32(at % size)
		w.next[ref] = none
		last := w.table.find(w.keys, key)
		w.keys[ref] = key
		if last == none {
			w.table.set(w.keys, ref)
		} else {
			for w.next[last] != none {
				last = w.next[last]
			}
			w.next[last] = ref
		}
		at++
	}
	w.end++
	*w.use(w.end) = at
	return len(keys)
}

// keysOf is what was announced for a batch; good until it is passed.
func (w *window) keysOf(batch uint64) []uint64 {
	if batch < w.begin || batch >= w.end {
		return nil
	}
	size := uint64(len(w.keys))
	from, to := *w.use(batch), *w.use(batch + 1)
	if from == to {
		return nil
	}
	if i, j := from%size, (to-1)%size+1; i < j {
		return w.keys[i:j]
	} else {
		return append(append(make([]uint64, 0, to-from), w.keys[i:]...), w.keys[:j]...)
	}
}

// pass ends the first batch.
func (w *window) pass() {
	size := uint64(len(w.keys))
	for at := *w.use(w.begin); at < *w.use(w.begin + 1); at++ {
		ref := uint32(at % size)
		if w.table.find(w.keys, w.keys[ref]) != ref {
			continue
		}
		// The next use takes this one's place in the table: the key is the same.
		if next := w.next[ref]; next != none {
			w.table.set(w.keys, next)
		} else {
			w.table.remove(w.keys, w.keys[ref])
		}
	}
	w.begin++
}

// skip has batches below this one count as passed, announced or not.
func (w *window) skip(batch uint64) {
	if w.begin == w.end && batch > w.end {
		at := *w.use(w.end)
		w.begin, w.end = batch, batch
		*w.use(batch) = at
	}
}

func (w *window) reset() {
	*w = window{keys: w.keys, next: w.next, table: w.table}
	w.table.reset()
}

func (w *window) bytes() int64 {
	return 8*int64(cap(w.keys)) + 4*int64(cap(w.next)) + w.table.bytes()
}
