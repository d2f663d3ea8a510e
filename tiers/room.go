package tiers

import (
	"psrt/csrc/probe"
	"psrt/tiers/accessor"
)

// MayMake says whether so many rows can be made for certain.
func (m *Memory) MayMake(rows, _ int) bool { return m.t.MayMake(rows) }

// Absent appends to absent those keys that have no row and are admitted.
func (m *Memory) Absent(keys, absent []uint64) []uint64 {
	rows := make([]uint32, len(keys))
	if m.t.Find(keys, rows) != nil {
		return absent
	}
	return lacking(m.t.Accessor(), keys, rows, absent)
}

// MayMake says whether the index has room for so many rows, while pinned are in use:
// slabs are emptied for it until two batches are left in memory, or what is pinned.
func (t *Tiered) MayMake(rows, pinned int) bool {
	s := &t.space
	segment := int64(s.segBytes())
	lacks := int64(t.index.Most(rows)) - int64(t.index.Bytes())/segment
	slabs := max(0, s.left()-s.reserve()) / s.slabCost // that would be made for rows
	frames := s.frames() + int(slabs)<<s.slabShift
	emptied := int64(max(0, frames-max(s.minFrames, pinned+1<<s.slabShift)) >> s.slabShift)
	left := max(0, s.left()-slabs*s.slabCost-2*groupBytes-int64(rows)+emptied*((ledgerBytes+slotBytes)<<s.slabShift)) // see cutUp
	return lacks <= int64(len(s.spare))+left/segment+emptied*(int64(s.slabBytes)/segment)
}

// MayStore says whether disks have room for so many rows beside those that they have, by their
// limit. Rows that are only read may take it yet: they are in memory and on a disk.
func (t *Tiered) MayStore(rows int) bool {
	room, limited := t.disk.room()
	return !limited || int64(rows) <= room
}

// Absent appends to absent those keys that have no row in any tier and are admitted.
func (t *Tiered) Absent(keys, absent []uint64) []uint64 {
	if t.isClosed() != nil {
		return absent
	}
	rows := make([]uint32, len(keys))
	t.index.Find(keys, rows)
	return lacking(t.acc, keys, rows, absent)
}

func lacking(acc *accessor.Accessor, keys []uint64, rows []uint32, absent []uint64) []uint64 {
	for i, row := range rows {
		if row == probe.NoRow && acc.Admit(keys[i]) {
			absent = append(absent, keys[i])
		}
	}
	return absent
}
