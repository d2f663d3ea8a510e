package probe

import "math/bits"

// The twin of index.c, function by function, without prefetch.

func (x *Index) home(which int, hash uint64) uint64 {
	hi, _ := bits.Mul64(hash, x.st.homes[which])
	return hi
}

func (x *Index) tableOf(hash uint64) int {
	if x.st.homes[1] != 0 && x.home(0, hash) < x.st.swept {
		return 1
	}
	return 0
}

// plainPlaceIn is slot i of bucket p, nil where the key is not.
func (x *Index) plainPlaceIn(which int, key, hash uint64) (p *bucket, i int) {
	for b := x.home(which, hash); b < x.st.buckets[which]; b++ {
		p := x.at(which, b)
		for i := range slotsPerBucket {
			if p.meta>>i&1 != 0 && p.keys[i] == key {
				return p, i
			}
		}
		if p.meta&passedBit == 0 {
			break
		}
	}
	return nil, 0
}

func (x *Index) plainPlace(key, hash uint64) (p *bucket, i int) {
	which := x.tableOf(hash)
	p, i = x.plainPlaceIn(which, key, hash)
	if p == nil && x.st.halfway != 0 && which == 0 && x.home(0, hash) == x.st.swept {
		p, i = x.plainPlaceIn(1, key, hash)
	}
	return p, i
}

func (x *Index) plainFind(key, hash uint64) uint32 {
	if p, i := x.plainPlace(key, hash); p != nil {
		return p.rows[i]
	}
	return noRow
}

func (x *Index) plainInsert(which int, key, hash uint64, row uint32) bool {
	for b := x.home(which, hash); b < x.st.buckets[which]; b++ {
		p := x.at(which, b)
		free := ^p.meta & takenMask
		if free == 0 {
			p.meta |= passedBit
			continue
		}
		i := bits.TrailingZeros32(free)
		p.keys[i], p.rows[i] = key, row
		p.meta |= 1 << i
		return true
	}
	return false
}

func (x *Index) plainMoveHome() bool {
	first := x.st.swept
	for b := first; b < x.st.buckets[0]; b++ {
		p := x.at(0, b)
		for taken := p.meta & takenMask; taken != 0; taken &= taken - 1 {
			i := bits.TrailingZeros32(taken)
			hash := mix(p.keys[i] ^ x.st.seed)
			if x.home(0, hash) != first {
				continue
			}
			if !x.plainInsert(1, p.keys[i], hash, p.rows[i]) {
				x.st.halfway = 1
				return false
			}
			p.meta &^= 1 << i
		}
		if p.meta&passedBit == 0 {
			break
		}
	}
	if first < x.st.buckets[0] {
		x.at(0, first).meta = 0
	}
	x.st.halfway = 0
	x.st.swept++
	return true
}

func (x *Index) plainSweep(homes int) status {
	for ; homes > 0 && x.st.homes[1] != 0 && x.st.swept < x.st.homes[0]; homes-- {
		if !x.plainMoveHome() {
			return needNew
		}
	}
	return done
}

func (x *Index) plainAdd(key, hash uint64, row uint32) status {
	growing := 0
	if x.st.homes[1] != 0 {
		growing = 1
		if s := x.plainSweep(sweepHomes); s != done {
			return s
		}
	}
	isStale := growing == 0 && x.st.deleted >= x.st.homes[0]
	if x.st.count >= 4*x.st.homes[growing] || isStale || growing == 1 && x.st.swept == x.st.homes[0] {
		return needGrowth
	}
	which := x.tableOf(hash)
	if !x.plainInsert(which, key, hash, row) {
		return needOld + status(which)
	}
	x.st.count++
	return done
}

func (x *Index) plainCreate(key, hash uint64) (uint32, status) {
	if x.st.nextRow >= x.st.rowLimit {
		return noRow, needRows
	}
	row := uint32(x.st.nextRow)
	s := x.plainAdd(key, hash, row)
	if s != done {
		return noRow, s
	}
	x.st.nextRow++
	return row, done
}

func (x *Index) plainSet(keys []uint64, rows, before []uint32) (n int, s status) {
	for i, k := range keys {
		hash := mix(k ^ x.st.seed)
		p, at := x.plainPlace(k, hash)
		if before != nil {
			if before[i] = noRow; p != nil {
				before[i] = p.rows[at]
			}
		}
		if p != nil {
			p.rows[at] = rows[i]
		} else if s := x.plainAdd(k, hash, rows[i]); s != done {
			return i, s
		}
	}
	return len(keys), done
}

func (x *Index) plainReplace(keys []uint64, rows []uint32) (replaced int) {
	for i, k := range keys {
		if p, at := x.plainPlace(k, mix(k^x.st.seed)); p != nil {
			p.rows[at] = rows[i]
			replaced++
		}
	}
	return replaced
}

func (x *Index) plainRemove(keys []uint64) (deleted int) {
	for _, k := range keys {
		if p, at := x.plainPlace(k, mix(k^x.st.seed)); p != nil {
			p.meta &^= 1 << at
			deleted++
		}
	}
	x.st.count -= uint64(deleted)
	x.st.deleted += uint64(deleted)
	return deleted
}

func (x *Index) plainFindAll(keys []uint64, rows []uint32) {
	for i, k := range keys {
		rows[i] = x.plainFind(k, mix(k^x.st.seed))
	}
}

func (x *Index) plainUpsert(keys []uint64, rows []uint32, fresh []uint64) (n, created int, s status) {
	for i, k := range keys {
		hash := mix(k ^ x.st.seed)
		row := x.plainFind(k, hash)
		if row == noRow {
			if row, s = x.plainCreate(k, hash); s != done {
				return i, created, s
			}
			fresh[created] = k
			created++
		}
		rows[i] = row
	}
	return len(keys), created, done
}
