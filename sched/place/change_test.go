package place

import (
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

func change(t *testing.T, m *Map, servers []Server) (*Map, []Move) {
	t.Helper()
	next, err := m.Change(servers)
	if err != nil {
		t.Fatal(err)
	}
	moves, err := Moves(m, next)
	if err != nil {
		t.Fatal(err)
	}
	return next, moves
}

// needed is the fewest moves that bring every server to its quota: what
// servers that left had, and what servers have above the quota.
func needed(from, to *Map) int {
	quota, n := to.quotas(), 0
	for i, have := range from.Owned() {
		want := 0
		if j := to.Index(from.Servers[i].ID); j >= 0 {
			want = quota[j]
		}
		n += max(0, have-want)
	}
	return n
}

func TestJoinTakesOnlyForTheNewcomer(t *testing.T) {
	for n := 1; n <= 40; n += 1 + n/6 {
		m := must(t, 0, equal(n, 2))
		// Once at its quotas, a map moves a newcomer's share and nothing else.
		m, _ = change(t, m, m.Servers)
		next, moves := change(t, m, append(slices.Clone(m.Servers), Server{ID: 1000, Lanes: 2}))
		for _, mv := range moves {
			if mv.To != 1000 {
				t.Fatalf("%d servers: slot %d moved from %d to %d when 1000 joined", n, mv.Slot, mv.From, mv.To)
			}
		}
		if got, want := len(moves), DefaultSlots/(n+1); got < want || got > want+1 {
			t.Errorf("%d servers: %d slots moved to the newcomer, its share is %d", n, got, want)
		}
		if got := imbalance(next); got > 1.1 {
			t.Errorf("%d servers and one: imbalance %.3f", n, got)
		}
	}
}

func TestLeaveMovesOnlyTheLeavers(t *testing.T) {
	for n := 2; n <= 40; n += 1 + n/6 {
		m, _ := change(t, must(t, 0, equal(n, 2)), equal(n, 2))
		gone := n / 2
		had := m.Owned()[gone]
		servers := slices.Delete(slices.Clone(m.Servers), gone, gone+1)
		_, moves := change(t, m, servers)
		for _, mv := range moves {
			if mv.From != gone {
				t.Fatalf("%d servers: slot %d moved from %d to %d when %d left", n, mv.Slot, mv.From, mv.To, gone)
			}
		}
		if len(moves) != had {
			t.Errorf("%d servers: %d slots moved, the leaver had %d", n, len(moves), had)
		}
	}
}

func TestChangesAreMinimalAndBalanced(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 4))
	for range 10 {
		servers := equal(1+r.IntN(20), 1+r.IntN(3))
		m := must(t, 256+r.IntN(8000), servers)
		for range 8 {
			switch k := r.IntN(3); {
			case k == 0 && len(servers) > 1:
				i := r.IntN(len(servers))
				servers = slices.Delete(slices.Clone(servers), i, i+1)
			case k == 1:
				servers = slices.Clone(servers)
				servers[r.IntN(len(servers))].Weight = 0.5 + 2*r.Float64()
			default:
				servers = append(slices.Clone(servers), Server{ID: 100 + r.IntN(1<<20), Lanes: 1 + r.IntN(4), Weight: 1})
			}
			next, moves := change(t, m, servers)
			if want := needed(m, next); len(moves) != want {
				t.Fatalf("%d slots moved, %d were needed", len(moves), want)
			}
			if next.Epoch != m.Epoch+1 || !slices.Equal(next.Owned(), next.quotas()) {
				t.Fatalf("epoch %d after %d, slots %v, quotas %v", next.Epoch, m.Epoch, next.Owned(), next.quotas())
			}
			for slot := range m.Slots {
				a, b := m.ServerOf(m.LaneOfSlot(slot)), next.ServerOf(next.LaneOfSlot(slot))
				if s, n := m.Servers[a], next.Servers[b]; s.ID == n.ID && s.Lanes == n.Lanes &&
					m.LaneOfSlot(slot)-m.first[a] != next.LaneOfSlot(slot)-next.first[b] {
					t.Fatalf("slot %d stayed on server %d but changed its lane", slot, s.ID)
				}
			}
			m = next
		}
	}
}

// TestNewIsConsistent: maps made from scratch for sets that differ by one
// server differ by little more than that server's share.
func TestNewIsConsistent(t *testing.T) {
	for n := 2; n <= 40; n += 1 + n/6 {
		a, b := must(t, 0, equal(n, 1)), must(t, 0, equal(n+1, 1))
		moves, err := Moves(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if got, fair := float64(len(moves)), float64(DefaultSlots)/float64(n+1); got > 2.2*fair {
			t.Errorf("%d to %d servers: %.0f slots moved, the newcomer's share is %.0f", n, n+1, got, fair)
		}
	}
	if _, err := Moves(must(t, 8, equal(1, 1)), must(t, 16, equal(1, 1))); err == nil {
		t.Error("maps of different jobs were compared")
	}
}
