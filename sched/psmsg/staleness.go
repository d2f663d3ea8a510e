package psmsg

import "slices"

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

// SyncStats is how stale a table may be, and was, in some lanes.
type SyncStats struct {
	Table string    `json:"table"` // its name, or dense
	Mode  string    `json:"mode"`  // as in --table-sync
	Seen  Staleness `json:"staleness_seen,omitempty"`
	Lanes int       `json:"lanes"`
	// Bound is the mean over the lanes of by how many steps a read may be stale now (-1:
	// any); Raised and Lowered count how often it was, where it moves.
	Bound   float64 `json:"bound"`
	Raised  uint64  `json:"raised,omitempty"`
	Lowered uint64  `json:"lowered,omitempty"`
}

// AddSyncs adds more to what is known by table.
func AddSyncs(all []SyncStats, more ...SyncStats) []SyncStats {
	for _, m := range more {
		i := slices.IndexFunc(all, func(s SyncStats) bool { return s.Table == m.Table })
		if i < 0 {
			all = append(all, SyncStats{Table: m.Table, Mode: m.Mode})
			i = len(all) - 1
		}
		s := &all[i]
		if lanes := s.Lanes + m.Lanes; lanes > 0 {
			s.Bound = (s.Bound*float64(s.Lanes) + m.Bound*float64(m.Lanes)) / float64(lanes)
			s.Lanes = lanes
		}
		s.Seen.Add(m.Seen)
		s.Raised += m.Raised
		s.Lowered += m.Lowered
	}
	return all
}
