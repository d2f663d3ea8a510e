package server

import (
	"testing"

	"psrt/sched/chain"
	"psrt/tiers/table"
)

// A worker that hears of the next head before this one does ends its connection, and
// does not come back here.
func TestChainHeadThatIsLeft(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, tables: []table.Spec{sgdTable()}}, 2, []int{0, 1})
	k, keys := w.worker(0, 5), w.keysOf(0, 20)
	k.push(0, 0, keys, 3, true)
	s := w.nodes[0].servers[0]
	away := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.away)
	}
	k.lose(0)
	w.until("its connection is missed", func() bool { return away() == 1 })
	w.change(0, func(c *chain.Config) { c.Chain[0], c.Chain[1] = c.Chain[1], c.Chain[0] })
	if n := away(); n != 0 {
		t.Errorf("who is not the head any more waits for %d workers, and would end with them", n)
	}
	k.push(0, 1, keys, 3, true)
	w.alike()
}
