package policy

const (
	none      = ^uint32(0)
	noList    = 0
	listBytes = 4 + 4 + 2
)

// lists are doubly linked lists of frames, each frame in one of them at most.
type lists struct {
	next, prev []uint32 // of those in a list
	of         []uint16 // list + 1; noList: in none
	head, tail []uint32 // by list
	size       []int
}

func newLists(n int) lists {
	l := lists{head: make([]uint32, n), tail: make([]uint32, n), size: make([]int, n)}
	for i := range n {
		l.head[i], l.tail[i] = none, none
	}
	return l
}

func (l *lists) grow(n int) {
	l.next, l.prev, l.of = extend(l.next, n), extend(l.prev, n), extend(l.of, n)
}

// extend touches no more memory than there was: a budget may be far larger than
// what is needed of it.
func extend[T any](s []T, n int) []T {
	switch {
	case len(s) >= n:
		return s
	case len(s) == 0: // make and copy together would clear all of it
		return make([]T, n)
	}
	longer := make([]T, n)
	copy(longer, s)
	return longer
}

func (l *lists) reset() {
	clear(l.of)
	for i := range l.head {
		l.head[i], l.tail[i], l.size[i] = none, none, 0
	}
}

// push puts a frame that is in no list at the back of one.
func (l *lists) push(list uint16, f uint32) {
	last := l.tail[list]
	l.of[f], l.prev[f], l.next[f] = list+1, last, none
	if last == none {
		l.head[list] = f
	} else {
		l.next[last] = f
	}
	l.tail[list] = f
	l.size[list]++
}

// remove takes a frame out of its list, if it is in one.
func (l *lists) remove(f uint32) {
	if l.of[f] == noList {
		return
	}
	list := l.of[f] - 1
	p, n := l.prev[f], l.next[f]
	if p == none {
		l.head[list] = n
	} else {
		l.next[p] = n
	}
	if n == none {
		l.tail[list] = p
	} else {
		l.prev[n] = p
	}
	l.of[f] = noList
	l.size[list]--
}

// move puts a frame at the back of a list.
func (l *lists) move(list uint16, f uint32) {
	l.remove(f)
	l.push(list, f)
}

// again puts a frame that is in a list at its back.
func (l *lists) again(f uint32) { l.move(l.of[f]-1, f) }

// first takes out the first frame that may go. Those passed over go to the
// back: they are in use, and would be met again and again.
func (l *lists) first(list uint16, may func(uint32) bool) (uint32, bool) {
	for range l.size[list] {
		f := l.head[list]
		if may(f) {
			l.remove(f)
			return f, true
		}
		l.move(list, f)
	}
	return none, false
}

func (l *lists) bytes() int64 { return int64(cap(l.next)+cap(l.prev))*4 + int64(cap(l.of))*2 }
