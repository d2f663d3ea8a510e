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

func (x *Index) plainFindIn(which int, key, hash uint64) uint32 {
	for b := x.home(which, hash); b < x.st.buckets[which]; b++ {
		p := x.at(which, b)
		for i := range slotsPerBucket {
			if p.meta>>i&1 != 0 && p.keys[i] == key {
				return p.rows[i]
			}
		}
		if p.meta&passedBit == 0 {
			break
		}
	}
	return noRow
}

func (x *Index) plainFind(key, hash uint64) uint32 {
	which := x.tableOf(hash)
	row := x.plainFindIn(which, key, hash)
	if row == noRow && x.st.halfway != 0 && which == 0 && x.home(0, hash) == x.st.swept {
		row = x.plainFindIn(1, key, hash)
	}
	return row
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

func (x *Index) plainCreate(key, hash uint64) (uint32, status) {
	if x.st.nextRow >= x.st.rowLimit {
		return noRow, needRows
	}
	growing := 0
	if x.st.homes[1] != 0 {
		growing = 1
		if s := x.plainSweep(sweepHomes); s != done {
			return noRow, s
		}
	}
	if x.st.count >= 4*x.st.homes[growing] || growing == 1 && x.st.swept == x.st.homes[0] {
		return noRow, needGrowth
	}
	which := x.tableOf(hash)
	row := uint32(x.st.nextRow)
	if !x.plainInsert(which, key, hash, row) {
		return noRow, needOld + status(which)
	}
	x.st.count++
	x.st.nextRow++
	return row, done
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
