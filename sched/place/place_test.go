package place

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
)

func equal(n, lanes int) []Server {
	s := make([]Server, n)
	for i := range s {
		s[i] = Server{ID: i, Weight: 1, Lanes: lanes}
	}
	return s
}

func must(t testing.TB, slots int, servers []Server) *Map {
	t.Helper()
	m, err := New(1, slots, servers)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// imbalance is the fullest server's slots relative to its fair share.
func imbalance(m *Map) float64 {
	var sum, worst float64
	for _, s := range m.Servers {
		sum += s.Weight
	}
	for i, n := range m.Owned() {
		worst = max(worst, float64(n)/(float64(m.Slots)*m.Servers[i].Weight/sum))
	}
	return worst
}

func TestEverySlotOwnedOnceAndEvenly(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 2))
	for n := 1; n <= 128; n += 1 + n/8 {
		servers := equal(n, 1+n%4)
		if n <= 32 { // enough slots a server for weights to show
			for i := range servers {
				servers[i].Weight = []float64{1, 1, 2, 4, 0.5}[r.IntN(5)]
			}
		}
		m := must(t, 0, servers)
		total := 0
		for _, k := range m.Owned() {
			total += k
		}
		if total != DefaultSlots {
			t.Fatalf("%d servers own %d slots", n, total)
		}
		// Quotas are rounded to whole slots: half a slot of slack at the least.
		if got := imbalance(m); got > 1.1 {
			t.Errorf("%d servers %v: imbalance %.3f, want at most 1.1", n, m.Owned(), got)
		}
		for i, s := range m.Servers {
			perLane := make([]int, s.Lanes)
			for slot := range m.Slots {
				if l := m.LaneOfSlot(slot) - m.FirstLane(s.ID); m.ServerOf(m.LaneOfSlot(slot)) == i {
					perLane[l]++
				}
			}
			if slices.Max(perLane)-slices.Min(perLane) > 1 {
				t.Errorf("server %d of %d: slots by lane %v", i, n, perLane)
			}
		}
	}
}

// TestAgainstNaiveRing walks the ring point by point, slot by slot, as the
// paper's definition has it.
func TestAgainstNaiveRing(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 3))
	for range 8 {
		servers := equal(1+r.IntN(6), 2)
		for i := range servers {
			servers[i].ID = r.IntN(1000)*10 + i
			servers[i].Weight = 0.25 + r.Float64()*4
		}
		m := must(t, 2*len(servers)+r.IntN(700), append([]Server(nil), servers...))
		ring, limit := m.ring(), m.limits()
		for slot := range m.Slots {
			at := slotAt(slot)
			best, bestGap := -1, uint64(math.MaxUint64)
			for i, p := range ring {
				if gap := p.at - at; limit[p.owner] > 0 && (best < 0 || gap < bestGap) { // clockwise, around the end
					best, bestGap = i, gap
				}
			}
			want := ring[best].owner
			limit[want]--
			if got := m.ServerOf(m.LaneOfSlot(slot)); got != int(want) {
				t.Fatalf("slot %d of %d is server %d's, the naive ring says %d", slot, m.Slots, got, want)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	m := must(t, 0, equal(3, 2))
	for _, k := range []uint64{0, 1, math.MaxUint64, math.MaxUint64 - 1, 1 << 63} {
		slot := m.SlotOf(k)
		if slot < 0 || slot >= m.Slots || m.LaneOf(k) != m.LaneOfSlot(slot) || m.LaneTable()[slot] != uint16(m.LaneOf(k)) {
			t.Errorf("key %d: slot %d, lane %d", k, slot, m.LaneOf(k))
		}
	}
	// Real ids are small, or multiples of a power of two, or only differ in
	// high bits: all must fill the slots evenly.
	keys, out := make([]uint64, 1<<17), make([]uint16, 1<<17)
	for name, key := range map[string]func(i uint64) uint64{
		"small": func(i uint64) uint64 { return i }, "stride 4096": func(i uint64) uint64 { return i << 12 },
		"high bits": func(i uint64) uint64 { return i << 47 }, "field tagged": func(i uint64) uint64 { return i%39<<52 | i/39 },
	} {
		count := make([]int, m.Slots)
		for i := range keys {
			keys[i] = key(uint64(i))
			count[m.SlotOf(keys[i])]++
		}
		chi := 0.0
		mean := float64(len(keys)) / float64(m.Slots)
		for _, c := range count {
			chi += (float64(c) - mean) * (float64(c) - mean) / mean
		}
		// chi-squared with 4095 degrees of freedom: 4095 +- 90.5.
		if chi < 4095-6*90.5 || chi > 4095+6*90.5 {
			t.Errorf("%s: chi-squared %.0f over %d slots", name, chi, m.Slots)
		}
		m.LanesOfKeys(keys, out)
		for i, k := range keys {
			if int(out[i]) != m.LaneOf(k) {
				t.Fatalf("batch says lane %d for key %d, one by one %d", out[i], k, m.LaneOf(k))
			}
		}
	}
}

func TestSlotsNeverMoveAKey(t *testing.T) {
	// A slot number is part of every stored model: it may never change.
	m := must(t, 4096, equal(1, 1))
	for key, want := range map[uint64]int{0: 3618, 1: 2320, 42: 3037, math.MaxUint64: 3661} {
		if got := m.SlotOf(key); got != want {
			t.Errorf("SlotOf(%d) = %d, was %d when models were written", key, got, want)
		}
	}
}

func TestLanesAreNumberedThrough(t *testing.T) {
	m := must(t, 64, []Server{{ID: 7, Lanes: 2}, {ID: 3, Lanes: 3, Addr: "b"}, {ID: 9, Lanes: 1}})
	if m.Lanes() != 6 || m.FirstLane(3) != 0 || m.FirstLane(7) != 3 || m.FirstLane(9) != 5 || m.FirstLane(1) != -1 {
		t.Errorf("lanes %d, first %d %d %d", m.Lanes(), m.FirstLane(3), m.FirstLane(7), m.FirstLane(9))
	}
	if m.LanesOf(3) != 3 || m.LanesOf(1) != 0 || m.Index(9) != 2 || m.Index(8) != -1 || m.ServerOf(4) != 1 {
		t.Error("a server's lanes are wrong")
	}
	if m.Servers[0].ID != 3 || m.Servers[0].Weight != 1 {
		t.Errorf("servers %v, want ID order and weight 1 by default", m.Servers)
	}
}

func TestSlotRanges(t *testing.T) {
	m := must(t, 500, equal(3, 2))
	owner := make([]int, m.Slots)
	for i := range owner {
		owner[i] = -1
	}
	for l := range m.Lanes() {
		last := int64(-1)
		for _, r := range m.SlotRanges(l) {
			if r.First <= last || r.Last <= r.First {
				t.Fatalf("lane %d has ranges %v", l, m.SlotRanges(l))
			}
			last = r.Last
			for s := r.First; s < r.Last; s++ {
				owner[s] = l
			}
		}
	}
	for s, l := range owner {
		if l != m.LaneOfSlot(s) {
			t.Fatalf("slot %d is in the ranges of lane %d, belongs to %d", s, l, m.LaneOfSlot(s))
		}
	}
}

func TestSameWhateverTheOrder(t *testing.T) {
	a := must(t, 0, []Server{{ID: 1, Lanes: 2}, {ID: 2, Lanes: 1, Weight: 3}, {ID: 5, Lanes: 1}})
	b := must(t, 0, []Server{{ID: 5, Lanes: 1}, {ID: 1, Lanes: 2}, {ID: 2, Lanes: 1, Weight: 3}})
	if !slices.Equal(a.lane, b.lane) {
		t.Error("the map depends on the order in which servers are named")
	}
}

func TestDenseBlocks(t *testing.T) {
	for _, servers := range [][]Server{equal(1, 1), equal(3, 2), equal(16, 4), {{ID: 0, Lanes: 2, Weight: 3}, {ID: 1, Lanes: 2, Weight: 1}}} {
		m := must(t, 0, servers)
		for blocks := 1; blocks < 300; blocks += 1 + blocks/9 {
			count, last := make([]float64, len(servers)), 0
			for i := range blocks {
				l := m.LaneOfBlock(i, blocks)
				if l < last || l >= m.Lanes() {
					t.Fatalf("block %d of %d is lane %d's, the one before %d's", i, blocks, l, last)
				}
				last = l
				count[m.ServerOf(l)]++
			}
			sum := 0.0
			for _, s := range m.Servers {
				sum += s.Weight
			}
			for i, c := range count {
				if fair := float64(blocks) * m.Servers[i].Weight / sum; math.Abs(c-fair) > 1 {
					t.Errorf("%d servers: server %d has %v of %d blocks, fair is %.2f", len(servers), i, c, blocks, fair)
				}
			}
		}
	}
}

func TestJSON(t *testing.T) {
	m := must(t, 256, []Server{{ID: 0, Lanes: 2, Weight: 2, Addr: "127.0.0.1:7"}, {ID: 4, Lanes: 1}})
	next, err := m.Change(append(slices.Clone(m.Servers), Server{ID: 2, Lanes: 3}))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Map{m, next} {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back Map
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if back.Epoch != m.Epoch || !slices.Equal(back.Servers, m.Servers) || !slices.Equal(back.lane, m.lane) || back.SlotOf(77) != m.SlotOf(77) {
			t.Error("a map is not what its JSON says")
		}
	}
	var byHand Map
	if err := json.Unmarshal([]byte(`{"slots":256,"servers":[{"id":4,"lanes":1},{"id":0,"lanes":2,"weight":2}]}`), &byHand); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(byHand.lane, m.lane) {
		t.Error("a map without assignment is not New's")
	}
}

func TestBadMaps(t *testing.T) {
	for _, c := range []struct{ json, says string }{
		{`{"slots":4,"servers":[]}`, "want 1 to 4"},
		{`{"slots":2,"servers":[{"id":0,"lanes":1},{"id":1,"lanes":1},{"id":2,"lanes":1}]}`, "want 1 to 2"},
		{`{"slots":-1,"servers":[{"id":0,"lanes":1}]}`, "-1 slots"},
		{`{"slots":2000000,"servers":[{"id":0,"lanes":1}]}`, "want 1 to 1048576"},
		{`{"slots":4,"servers":[{"id":-1,"lanes":1}]}`, "server ID -1"},
		{`{"slots":4,"servers":[{"id":1,"lanes":1},{"id":1,"lanes":1}]}`, "two servers have ID 1"},
		{`{"slots":4,"servers":[{"id":1,"lanes":0}]}`, "0 lanes"},
		{`{"slots":4,"servers":[{"id":1,"lanes":70000}]}`, "use fewer lanes"},
		{`{"slots":4,"servers":[{"id":1,"lanes":60000},{"id":2,"lanes":60000}]}`, "use fewer lanes"},
		{`{"slots":4,"servers":[{"id":1,"lanes":1,"weight":-2}]}`, "weight -2"},
		{`{"slots":4,"servers":[{"id":1,"lanes":1,"weight":1e9}]}`, "weight 1e+09"},
		{`{"slots":4,"servers":[{"id":1,"lanes":1}],"assignment":"AAAA"}`, "3 bytes of assignment, want 8"},
		{`{"slots":2,"servers":[{"id":1,"lanes":1}],"assignment":"AAABAA=="}`, "slot 1 is given to lane 1 of 1"},
		{`{"slots":"x"}`, "place: "},
	} {
		var m Map
		if err := json.Unmarshal([]byte(c.json), &m); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one with %q", c.json, err, c.says)
		}
	}
	if _, err := New(0, 4, []Server{{ID: 1, Lanes: 1, Weight: math.NaN()}}); err == nil {
		t.Error("a weight of NaN is accepted")
	}
}

func FuzzMapJSON(f *testing.F) {
	f.Add([]byte(`{"epoch":3,"slots":8,"servers":[{"id":0,"weight":1,"lanes":2,"addr":"x"},{"id":4,"lanes":1}]}`))
	f.Add([]byte(`{"slots":2,"servers":[{"id":1,"lanes":1}],"assignment":"AAAAAA=="}`))
	f.Add([]byte(`{"slots":4096,"servers":[{"id":9223372036854775807,"lanes":65535,"weight":1e6}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Map
		if json.Unmarshal(b, &m) != nil || m.lane == nil {
			return
		}
		for _, k := range []uint64{0, math.MaxUint64, 12345} {
			if l := m.LaneOf(k); l < 0 || l >= m.Lanes() || m.ServerOf(l) >= len(m.Servers) {
				t.Fatalf("key %d is lane %d's of %d", k, l, m.Lanes())
			}
		}
		if l := m.LaneOfBlock(0, 1); l >= m.Lanes() {
			t.Fatalf("block 0 is lane %d's of %d", l, m.Lanes())
		}
		if _, err := json.Marshal(&m); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkLanesOfKeys(b *testing.B) {
	m := must(b, 0, equal(4, 2))
	keys, out := make([]uint64, 8192), make([]uint16, 8192)
	for i := range keys {
		keys[i] = uint64(i) * 7919
	}
	b.SetBytes(8 * 8192)
	for b.Loop() {
		m.LanesOfKeys(keys, out)
	}
}
