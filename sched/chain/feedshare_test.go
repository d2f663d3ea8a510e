package chain

import "testing"

// bulkState is rows by the byte: what is in them does not matter.
type bulkState struct {
	size, given int
}

func (s *bulkState) Take(*Op, bool) []byte { return nil }
func (s *bulkState) Rest() []byte          { return nil }
func (s *bulkState) Past() []byte          { return nil }
func (s *bulkState) Clear()                {}
func (s *bulkState) Begin([]byte)          {}
func (s *bulkState) Install([]byte)        {}
func (s *bulkState) TakePart(*Op, []byte)  {}
func (s *bulkState) End([]byte)            {}
func (s *bulkState) Rows(cursor uint64, budget int) ([]byte, uint64, bool) {
	n := min(budget, s.size-int(cursor))
	s.given += n
	return make([]byte, n), cursor + uint64(n), int(cursor)+n == s.size
}

// A group whose pushes come as fast as its joiner's link can take them has its joiner all
// the same: rows have their share of the link, and no more where they are paced, and what
// is on the way is bounded.
func TestRowsBesidePushes(t *testing.T) {
	const (
		linkBytes = 100_000 // that the joiner takes in a turn
		opBytes   = 20_000
		rowBytes  = 20 << 20
		feedBytes = 1 << 20
	)
	for _, paced := range []bool{false, true} {
		state := &bulkState{size: rowBytes}
		m := New(Node{Server: 0, Gen: 1}, 0, Options{FeedBytes: feedBytes, StuckTicks: 1000}, state)
		joiner := Node{Server: 1, Gen: 1}
		cfg := Config{Epoch: 1, Began: 1, Chain: []Member{{Node{Server: 0, Gen: 1}, 1}}}
		m.Adopt(cfg)
		m.Lease(true)
		if v := submit(m, Enter, 0, 0); v != Ordered {
			t.Fatalf("enter: %v", v)
		}
		cfg.Epoch, cfg.Joiner = 2, &Member{joiner, 2}
		m.Adopt(cfg)
		m.Fenced(2)
		if paced {
			m.Pace(Pace{Rows: 1, Item: 1 << 14})
		}
		var way []Message
		room, push, ops := 0, uint64(0), 0
		turns := 0
		for ; m.feed == nil || !m.feed.inStep; turns++ {
			if turns > 10*rowBytes/linkBytes*CopyShare {
				t.Fatalf("paced %v: after %d turns %d of %d bytes of rows are copied", paced, turns, state.given, rowBytes)
			}
			for ops < (turns+1)*linkBytes && submit(m, Push, push+1, opBytes) == Ordered {
				push++
				ops += opBytes
			}
			for _, msg := range m.Outputs().Messages {
				if msg.Kind == Feed {
					way = append(way, msg)
				}
			}
			if m.feed != nil && m.feed.bytes > (feedBytes+2*opBytes)*CopyShare/(CopyShare-1)+feedBytes/4 {
				t.Fatalf("paced %v: %d bytes are on their way, of %d", paced, m.feed.bytes, feedBytes)
			}
			for room += linkBytes; len(way) > 0 && room >= way[0].Item.itemBytes; way = way[1:] {
				room -= way[0].Item.itemBytes
				m.Step(Message{Kind: Fed, Epoch: 2, From: joiner, To: m.self, Seq: way[0].Seq})
			}
		}
		share := float64(rowBytes) / float64(turns*linkBytes)
		t.Logf("paced %v: rows had %.3f of the link, %d pushes", paced, share, push)
		if share < 0.9/CopyShare || paced && share > 1.25/CopyShare {
			t.Errorf("paced %v: rows had %.3f of the link, want 1/%d", paced, share, CopyShare)
		}
	}
}

func submit(m *Machine, kind Kind, push uint64, size int) Verdict {
	_, v := m.Submit(m.Epoch(), Header{Kind: kind, Worker: 1, Client: 1, Push: push, Size: size}, make([]byte, size))
	return v
}
