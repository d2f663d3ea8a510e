package tiers

import "psrt/tiers/table"

const noRow = table.NoRow

// Flags of a row in memory. changed, carried and pendingCut are marks that
// belong to the row and go with it from tier to tier.
const (
	flagLive    uint8 = 1 << iota // the place holds a row
	markChanged                   // made or changed since the last cut began
	markCarried                   // in the cut under way: changed again if that is not committed
	markCut                       // in the cut under way, not given yet
	markSweep                     // not looked at yet by the sweep under way
	flagDirty                     // its disk has no copy, or an old one
	flagLoading                   // being read
	flagDrain                     // its slab is being emptied
)

// ledger is what is known of each place in memory: whose row it is, who uses
// it, and its flags. Places are grouped as rows are in slabs.
type ledger struct {
	shift  uint
	chunks []*chunk
}

type chunk struct {
	keys  []uint64
	pins  []uint32
	slots []uint32 // Tiered's: where the disk has a copy that is good; the load's number while it is read
	flags []uint8
	turn  turn // Memory's
}

// ledgerBytes is what a place takes; slotBytes, what it takes more in a Tiered.
const (
	ledgerBytes = 8 + 4 + 1
	slotBytes   = 4
)

func newChunk(n int) *chunk {
	return &chunk{keys: make([]uint64, n), pins: make([]uint32, n), flags: make([]uint8, n)}
}

func (g *ledger) at(row uint32) (c *chunk, i uint32) {
	return g.chunks[row>>g.shift], row & (1<<g.shift - 1)
}

func (g *ledger) key(row uint32) uint64 {
	c, i := g.at(row)
	return c.keys[i]
}

// places is the number of places, used or not.
func (g *ledger) places() int { return len(g.chunks) << g.shift }

// bytes is what the ledger takes.
func (g *ledger) bytes() int64 { return int64(g.places()) * ledgerBytes }

func (g *ledger) pin(rows []uint32) {
	for _, r := range rows {
		if r != noRow {
			c, i := g.at(r)
			c.pins[i]++
		}
	}
}

func (g *ledger) unpin(rows []uint32) {
	for _, r := range rows {
		if r != noRow {
			c, i := g.at(r)
			c.pins[i] -= min(c.pins[i], 1)
		}
	}
}
