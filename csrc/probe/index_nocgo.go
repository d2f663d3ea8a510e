//go:build !cgo

package probe

func (x *Index) find(keys []uint64, rows []uint32) { x.plainFindAll(keys, rows) }

func (x *Index) upsert(keys []uint64, rows []uint32, fresh []uint64) (n, created int, s status) {
	return x.plainUpsert(keys, rows, fresh)
}

func (x *Index) sweep(homes int) status { return x.plainSweep(homes) }

func (x *Index) set(keys []uint64, rows, before []uint32) (n int, s status) {
	return x.plainSet(keys, rows, before)
}

func (x *Index) replace(keys []uint64, rows []uint32) int { return x.plainReplace(keys, rows) }

func (x *Index) remove(keys []uint64) int { return x.plainRemove(keys) }
