//go:build !cgo

package bare

// best is the fastest level of this build: Go's.
func best() int { return 0 }

func (t *Table) find(keys []uint64, ids []uint32)              { t.plainFind(keys, ids) }
func (t *Table) pull(_ int, keys []uint64, d int, o []float32) { t.plainPull(keys, d, o) }
func (t *Table) update(_ int, ids []uint32, d int, g []float32, rate float32) {
	t.plainUpdate(ids, d, g, rate)
}
func (t *Table) insert(_ int, keys []uint64, v []float32) { t.plainInsert(keys, v) }
