package place

import "slices"

// roles orders the members of every group, so that every server is the head of
// its share of its groups, and the tail of its share of the others. It changes no
// order without need: what joined last stays at the end.
func (s *spread) roles() {
	if s.each < 2 {
		return
	}
	r := &role{s: s, at: 0}
	r.balance(s.load, s.each)
	if s.each < 3 {
		return
	}
	rest := slices.Clone(s.load)
	for _, in := range s.in {
		rest[in[0]]--
	}
	(&role{s: s, at: s.each - 1}).balance(rest, s.each-1)
}

// role is the work on one position of the chains, the first or the last. The
// first are settled when the last are looked at.
type role struct {
	s    *spread
	at   int
	have []int
}

func (r *role) open(g int) []int {
	if r.at == 0 {
		return r.s.in[g]
	}
	return r.s.in[g][1:]
}

// balance lets each server have the role in floor or ceil of candidates/of
// groups. There is such an assignment: 1/of of each candidacy is a flow, and so
// there is one in whole numbers between the same bounds.
func (r *role) balance(candidates []int, of int) {
	r.have = make([]int, len(candidates))
	for _, in := range r.s.in {
		r.have[in[r.at]]++
	}
	low := func(i int) int { return candidates[i] / of }
	high := func(i int) int { return (candidates[i] + of - 1) / of }
	for i := range candidates {
		for r.have[i] > high(i) && r.pass([]int{i}, func(y int) bool { return r.have[y] < high(y) }) {
		}
	}
	for y := range candidates {
		for r.have[y] < low(y) {
			var from []int
			for i := range candidates {
				if r.have[i] > low(i) {
					from = append(from, i)
				}
			}
			if !r.pass(from, func(i int) bool { return i == y }) {
				break
			}
		}
	}
}

// pass hands the role on along the shortest path from one of from to one that
// may have one more.
func (r *role) pass(from []int, may func(int) bool) bool {
	type way struct{ by, group int }
	parent := make(map[int]way, len(from))
	for _, i := range from {
		parent[i] = way{-1, -1}
	}
	holds := make([][]int, len(r.have))
	for g, in := range r.s.in {
		holds[in[r.at]] = append(holds[in[r.at]], g)
	}
	for queue := slices.Clone(from); len(queue) > 0; {
		i := queue[0]
		queue = queue[1:]
		for _, g := range holds[i] {
			for _, y := range r.open(g) {
				if _, ok := parent[y]; ok {
					continue
				}
				parent[y] = way{i, g}
				if !may(y) {
					queue = append(queue, y)
					continue
				}
				for w := parent[y]; w.by >= 0; y, w = w.by, parent[w.by] {
					r.give(w.group, y)
					r.have[y]++
					r.have[w.by]--
				}
				return true
			}
		}
	}
	return false
}

// give moves y to the role's position in a group; the others keep their order.
func (r *role) give(g, y int) {
	in := r.s.in[g]
	k := slices.Index(in, y)
	in = slices.Delete(in, k, k+1)
	r.s.in[g] = slices.Insert(in, r.at, y)
}
