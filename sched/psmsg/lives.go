package psmsg

import (
	"fmt"

	"psrt/tiers/accessor"
)

// HappenRequest has events happen to a table, at every lane between the same two
// steps: after all updates of steps before Step, and in BSP before those of later
// ones. It is answered before that. From is how many events there were (and were
// asked for) before: a request that comes again changes nothing.
type HappenRequest struct {
	Table  uint32 `json:"table"`
	Step   uint64 `json:"step"`
	From   int    `json:"from"`
	Events string `json:"events"` // as accessor.FormatEvents writes them
	// Tell asks only, for the events from From on.
	Tell bool `json:"tell,omitempty"`
}

// HappenReply says how many events there are, those that wait for their step
// included. Missing are those from From on that the server has and the request
// does not account for: then nothing was done.
type HappenReply struct {
	Len     int    `json:"len"`
	Missing string `json:"missing,omitempty"`
}

// LifeStats is what has become of a table's rows since the server began.
type LifeStats struct {
	Events   int    `json:"events"` // since the table was made
	Days     int    `json:"days"`
	Shrinks  int    `json:"shrinks"`
	Saves    int    `json:"saves"` // for serving, that were good
	Evicted  int    `json:"evictions"`
	Gone     uint64 `json:"rows_gone"`          // dropped, or born again when they had ended
	Sweeping bool   `json:"sweeping,omitempty"` // not all that ended are dropped yet
	Graves   int    `json:"graves,omitempty"`   // ids that wait to be listed as deleted
}

// Add adds another lane's, or server's.
func (s *LifeStats) Add(o *LifeStats) {
	s.Events, s.Days, s.Shrinks = max(s.Events, o.Events), max(s.Days, o.Days), max(s.Shrinks, o.Shrinks)
	s.Saves, s.Evicted = max(s.Saves, o.Saves), max(s.Evicted, o.Evicted)
	s.Gone += o.Gone
	s.Graves += o.Graves
	s.Sweeping = s.Sweeping || o.Sweeping
}

// LivesRequest asks what the rows of the tables with a lifecycle have become.
type LivesRequest struct {
	// Census has all rows looked at, which takes as long as a digest.
	Census bool `json:"census,omitempty"`
}

// LivesReply answers it, for the lanes of a server, by table ID.
type LivesReply struct {
	Tables map[uint32]*Lives `json:"tables"`
}

// Lives is one table's.
type Lives struct {
	LifeStats
	// Of a census.
	Rows     int64 `json:"rows"`
	Admitted int64 `json:"admitted"`
	Extended int64 `json:"extended"`
	Served   int64 `json:"served"`
}

// Add adds another lane's, or server's.
func (s *Lives) Add(o *Lives) {
	s.LifeStats.Add(&o.LifeStats)
	s.Rows += o.Rows
	s.Admitted += o.Admitted
	s.Extended += o.Extended
	s.Served += o.Served
}

// MergeLifecycles is the memos of all servers, as a manifest has them.
func MergeLifecycles(replies []SaveReply) (map[uint32]string, error) {
	memos := map[uint32]accessor.Memo{}
	for _, r := range replies {
		for id, text := range r.Lifecycle {
			m, err := accessor.ParseMemo(text)
			if err != nil {
				return nil, fmt.Errorf("table %d: %w", id, err)
			}
			if err := AddMemo(memos, id, m); err != nil {
				return nil, err
			}
		}
	}
	return MemoTexts(memos), nil
}

// AddMemo merges one lane's memo.
func AddMemo(memos map[uint32]accessor.Memo, id uint32, m accessor.Memo) error {
	have, isThere := memos[id]
	if isThere {
		if err := have.Merge(m); err != nil {
			return fmt.Errorf("table %d: %w", id, err)
		}
		m = have
	}
	memos[id] = m
	return nil
}

// MemoTexts writes memos down; nil for none.
func MemoTexts(memos map[uint32]accessor.Memo) map[uint32]string {
	if len(memos) == 0 {
		return nil
	}
	out := map[uint32]string{}
	for id, m := range memos {
		out[id] = m.String()
	}
	return out
}
