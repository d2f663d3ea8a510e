package fanin

// ring is a circle of workers, linked by index so that joining and leaving
// cost nothing and allocate nothing.
type ring struct {
	next, prev []int32 // by worker; out if not in the ring
	front      int32   // out if empty
}

const out = -1

func newRing(workers int) ring {
	r := ring{next: make([]int32, workers), prev: make([]int32, workers), front: out}
	for i := range r.next {
		r.next[i], r.prev[i] = out, out
	}
	return r
}

func (r *ring) has(w int32) bool { return r.next[w] != out }

// add puts w behind all others. Precondition: it is not in.
func (r *ring) add(w int32) {
	if r.front == out {
		r.front, r.next[w], r.prev[w] = w, w, w
		return
	}
	last := r.prev[r.front]
	r.next[last], r.prev[w] = w, last
	r.next[w], r.prev[r.front] = r.front, w
}

// remove takes w out. Precondition: it is in.
func (r *ring) remove(w int32) {
	if r.next[w] == w {
		r.front = out
	} else {
		r.next[r.prev[w]], r.prev[r.next[w]] = r.next[w], r.prev[w]
		if r.front == w {
			r.front = r.next[w]
		}
	}
	r.next[w], r.prev[w] = out, out
}

// rotate moves the front to the back.
func (r *ring) rotate() { r.front = r.next[r.front] }
