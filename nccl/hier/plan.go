package hier

import "slices"

// Plan is what a rank does with a vector.
type Plan struct {
	First, End int // the bytes that it owns in its part
	// Slices are those of them that it finishes, by where they begin.
	Slices []Slice
	// Links are the ranks of other parts that own some of these bytes, ascending. It is
	// in their Links too.
	Links []int
}

// Slice is finished by one of its owners.
type Slice struct {
	First, End int
	Owners     []int // by part: the rank that owns these bytes there
}

// Plan cuts a vector of so many bytes for a rank.
func (l *Levels) Plan(rank, bytes int) Plan {
	mine := l.Of[rank]
	var p Plan
	p.First, p.End = Segment(bytes, l.place[rank], len(l.Parts[mine].Ranks))
	cuts := []int{p.First, p.End}
	for _, part := range l.Parts {
		for i := range part.Ranks {
			if first, _ := Segment(bytes, i, len(part.Ranks)); first > p.First && first < p.End {
				cuts = append(cuts, first)
			}
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for i := range len(cuts) - 1 {
		owners := l.owners(cuts[i], bytes)
		for part, rank := range owners {
			if part != mine {
				p.Links = append(p.Links, rank)
			}
		}
		// Of each stretch with the same owners each part finishes an equal share, so
		// that all hosts' links carry the same.
		first, end := Segment(cuts[i+1]-cuts[i], mine, len(l.Parts))
		if first < end {
			p.Slices = append(p.Slices, Slice{First: cuts[i] + first, End: cuts[i] + end, Owners: owners})
		}
	}
	slices.Sort(p.Links)
	p.Links = slices.Compact(p.Links)
	return p
}

// owners of a byte, by part.
func (l *Levels) owners(at, bytes int) []int {
	owners := make([]int, len(l.Parts))
	for i, part := range l.Parts {
		place := 0
		for _, end := Segment(bytes, place, len(part.Ranks)); end <= at; _, end = Segment(bytes, place, len(part.Ranks)) {
			place++
		}
		owners[i] = part.Ranks[place]
	}
	return owners
}

// Segment i of n, in whole cache lines but for the last.
func Segment(bytes, i, n int) (first, end int) {
	const line = 64
	lines := (bytes + line - 1) / line
	return min(lines*i/n*line, bytes), min(lines*(i+1)/n*line, bytes)
}
