package hier

import "psrt/csrc/fold"

// Levels is an order of additions in two: within parts, and of the parts' sums.
type Levels struct {
	Parts []Part
	Of    []int // by rank: the number of its part, and
	place []int // its place in it
	// Above is over the numbers of parts; the whole ends in part 0.
	Above []fold.Merge
}

// Part is ranks of one host whose sum is a value of the order.
type Part struct {
	Ranks []int
	// Order is over places in Ranks; the sum ends in place 0.
	Order []fold.Merge
}

// Split is Parts where there is something to do inside hosts and between them, else nil.
func Split(order []fold.Merge, hosts []string) *Levels {
	l := Parts(order, hosts)
	if len(l.Parts) < 2 || len(l.Parts) == len(hosts) {
		return nil
	}
	return l
}

// Parts makes the largest parts of one host each, in an order over len(hosts) ranks that
// ends in rank 0.
func Parts(order []fold.Merge, hosts []string) *Levels {
	n := len(hosts)
	s := splitting{root: make([]int, n), crossed: make([]bool, n), inner: make([][]fold.Merge, n)}
	for r := range n {
		s.root[r] = r
	}
	var above []fold.Merge // over roots
	for _, m := range order {
		if s.crossed[m.Dst] || s.crossed[m.Src] || hosts[m.Dst] != hosts[m.Src] {
			s.crossed[m.Dst] = true
			above = append(above, m)
			continue
		}
		s.join(int(m.Dst), int(m.Src), m)
	}
	l := s.levels()
	for _, m := range above {
		l.Above = append(l.Above, fold.Merge{Dst: int32(l.Of[m.Dst]), Src: int32(l.Of[m.Src])})
	}
	return l
}

type splitting struct {
	root    []int          // by rank: where its part's sum ends
	crossed []bool         // by root: what it has become is more than its part
	inner   [][]fold.Merge // by root, over ranks
}

// join takes src's part into dst's.
func (s *splitting) join(dst, src int, m fold.Merge) {
	for r := range s.root {
		if s.root[r] == src {
			s.root[r] = dst
		}
	}
	s.inner[dst] = append(append(s.inner[dst], s.inner[src]...), m)
}

// levels numbers the parts by their roots, and the ranks of each: its root first.
func (s *splitting) levels() *Levels {
	n := len(s.root)
	l := &Levels{Of: make([]int, n), place: make([]int, n)}
	number := make([]int, n) // by root
	for r := range n {
		if s.root[r] == r {
			number[r] = len(l.Parts)
			l.Parts = append(l.Parts, Part{Ranks: []int{r}})
			l.Of[r] = number[r]
		}
	}
	for r := range n {
		if at := s.root[r]; at != r {
			p := &l.Parts[number[at]]
			l.Of[r], l.place[r] = number[at], len(p.Ranks)
			p.Ranks = append(p.Ranks, r)
		}
	}
	for r := range n {
		if s.root[r] != r {
			continue
		}
		p := &l.Parts[number[r]]
		for _, m := range s.inner[r] {
			p.Order = append(p.Order, fold.Merge{Dst: int32(l.place[m.Dst]), Src: int32(l.place[m.Src])})
		}
	}
	return l
}

// Place of a rank in its part.
func (l *Levels) Place(rank int) int { return l.place[rank] }
