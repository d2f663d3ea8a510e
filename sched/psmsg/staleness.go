package psmsg

// MostStaleness is the last count of a Staleness: of pulls that lacked so many steps or
// more.
const MostStaleness = 64

// Staleness counts pulls by how many steps of the slowest worker they were ahead of: at
// i, those that were answered without all pushes of the i steps before their own. In BSP
// all are at 0.
type Staleness []uint64

// Note counts one pull.
func (s *Staleness) Note(steps uint64) {
	at := int(min(steps, MostStaleness))
	for len(*s) <= at {
		*s = append(*s, 0)
	}
	(*s)[at]++
}

// Add counts another's pulls, too.
func (s *Staleness) Add(o Staleness) {
	for i, n := range o[:min(len(o), MostStaleness+1)] {
		for len(*s) <= i {
			*s = append(*s, 0)
		}
		(*s)[i] += n
	}
}

// Pulls is how many there are.
func (s Staleness) Pulls() (all uint64) {
	for _, n := range s {
		all += n
	}
	return all
}

// Mean is how many steps a pull lacked on average, 0 without pulls.
func (s Staleness) Mean() float64 {
	sum := 0.0
	for i, n := range s {
		sum += float64(i) * float64(n)
	}
	return sum / float64(max(1, s.Pulls()))
}
