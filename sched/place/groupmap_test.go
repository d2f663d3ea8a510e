package place

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"psrt/csrc/seedtest"
)

func TestGroupMap(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 0))
	for _, cfg := range []ChainsConfig{{Replicas: 2}, {Replicas: 3, Slots: 1000, Groups: 7}, {Slots: 5, Groups: 5}, {Slots: 9, Groups: 1}, {Replicas: 2, Slots: MaxSlots, Groups: 777}} {
		c := chains(t, cfg, apart(3))
		m := c.GroupMap()
		if m.Lanes() != len(c.Groups) || len(m.Servers) != len(c.Groups) {
			t.Fatalf("%+v: %d lanes of %d servers for %d groups", cfg, m.Lanes(), len(m.Servers), len(c.Groups))
		}
		for range 2000 {
			if key := r.Uint64(); m.LaneOf(key) != c.GroupOfKey(key) {
				t.Fatalf("%+v: key %d is in lane %d and in group %d", cfg, key, m.LaneOf(key), c.GroupOfKey(key))
			}
		}
		for g := range c.Groups {
			if m.FirstLane(g) != g || m.LanesOf(g) != 1 || m.ServerOf(g) != g || m.Index(g) != g {
				t.Fatalf("%+v: group %d: lane %d of server %d", cfg, g, m.FirstLane(g), m.ServerOf(g))
			}
			if ranges := m.SlotRanges(g); len(c.Groups) < 100 && (len(ranges) != 1 || ranges[0] != c.SlotsOf(g)) {
				t.Fatalf("%+v: group %d: slots %v, want %v", cfg, g, ranges, c.SlotsOf(g))
			}
		}
		// Blocks of the dense vector are spread evenly, in runs.
		blocks, last := 3*len(c.Groups)+1, 0
		have := make([]int, len(c.Groups))
		for b := range blocks {
			l := m.LaneOfBlock(b, blocks)
			if l < last {
				t.Fatalf("%+v: block %d is in lane %d, the one before in %d", cfg, b, l, last)
			}
			last = l
			have[l]++
		}
		for g, n := range have {
			if n < 3 || n > 4 {
				t.Fatalf("%+v: group %d has %d of %d blocks", cfg, g, n, blocks)
			}
		}
		again := c.clone()
		again.set(0, again.Groups[0].Chain, nil)
		if !reflect.DeepEqual(again.GroupMap(), m) {
			t.Errorf("%+v: another epoch has another map of groups", cfg)
		}
	}
}

// A group map is one that New could have read.
func TestGroupMapStored(t *testing.T) {
	m := chains(t, ChainsConfig{Replicas: 2, Slots: 300, Groups: 11}, apart(2)).GroupMap()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back Map
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&back, m) {
		t.Errorf("it comes back as %+v", back)
	}
}

func TestTooManyGroups(t *testing.T) {
	if _, err := NewChains(ChainsConfig{Slots: MaxSlots, Groups: MaxGroups + 1}, apart(2)); err == nil {
		t.Error("a map of more groups than there may be")
	}
	if n := GroupsFor(MaxServers, MaxSlots); n > MaxGroups {
		t.Errorf("%d groups by default, at most %d", n, MaxGroups)
	}
}
