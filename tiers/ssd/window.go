package ssd

// window numbers writes and knows up to which number all have ended.
type window struct {
	issued, done uint64
	ended        []bool // of done+1 and on
}

func (s *Store) beginWrite() uint64 {
	w := &s.writes
	w.issued++
	w.ended = append(w.ended, false)
	return w.issued
}

func (s *Store) endWrite(n uint64) {
	w := &s.writes
	w.ended[n-w.done-1] = true
	k := 0
	for k < len(w.ended) && w.ended[k] {
		k++
	}
	w.done += uint64(k)
	w.ended = append(w.ended[:0], w.ended[k:]...)
}
