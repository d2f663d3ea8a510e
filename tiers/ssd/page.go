package ssd

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var le = binary.LittleEndian

const (
	pageMagic  = 0x31475053 // "SPG1"
	pageHeader = 64
)

// kinds of pages and of the segments they lie in.
const (
	kindFresh = 0 // what the owner has appended
	kindCopy  = 1 // what compaction has moved
)

// pageInfo is the head of a summary page, but for magic and sum:
//
//	0 magic u32 | 4 sum u32 | 8 store u64 | 16 generation u64 | 24 time u64
//	32 segment u32 | 36 log u32 | 40 page u16 | 42 entries u16 | 44 records u16 | 46 kind u8
//	64 keys, 8 bytes each, room for layout.entries | a bit each: set is a deletion
//
// The sum is CRC-32C of all bytes of the page behind it.
type pageInfo struct {
	store   uint64
	gen     uint64
	time    uint64 // where the page stands in the order of recovery
	segment uint32
	log     uint32
	page    int
	entries int
	records int
	kind    uint8
}

// seal writes p's head and sum; the keys and bits are there.
func (p *pageInfo) seal(b []byte) {
	clear(b[:pageHeader])
	le.PutUint32(b, pageMagic)
	le.PutUint64(b[8:], p.store)
	le.PutUint64(b[16:], p.gen)
	le.PutUint64(b[24:], p.time)
	le.PutUint32(b[32:], p.segment)
	le.PutUint32(b[36:], p.log)
	le.PutUint16(b[40:], uint16(p.page))
	le.PutUint16(b[42:], uint16(p.entries))
	le.PutUint16(b[44:], uint16(p.records))
	b[46] = p.kind
	le.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
}

// openPage reads a page; why is not empty if it is none.
func openPage(b []byte, l *layout) (p pageInfo, why string) {
	if le.Uint32(b) != pageMagic {
		return p, "this is no summary page"
	}
	if got, want := crc32.Checksum(b[8:], castagnoli), le.Uint32(b[4:]); got != want {
		return p, "the summary page's sum is wrong"
	}
	p = pageInfo{
		store: le.Uint64(b[8:]), gen: le.Uint64(b[16:]), time: le.Uint64(b[24:]),
		segment: le.Uint32(b[32:]), log: le.Uint32(b[36:]), page: int(le.Uint16(b[40:])),
		entries: int(le.Uint16(b[42:])), records: int(le.Uint16(b[44:])), kind: b[46],
	}
	if p.entries > l.entries || p.records > l.slots || p.records > p.entries {
		return p, "the summary page counts more entries than it has room for"
	}
	n := 0
	for i := range p.entries {
		if !isDeletion(b, l, i) {
			n++
		}
	}
	if n != p.records {
		return p, "the summary page's deletions and records are not as many as it says"
	}
	return p, ""
}

func entryKey(b []byte, i int) uint64         { return le.Uint64(b[pageHeader+8*i:]) }
func setEntryKey(b []byte, i int, key uint64) { le.PutUint64(b[pageHeader+8*i:], key) }

// recordKey is the key of a page's record number n.
func recordKey(b []byte, l *layout, n int) uint64 {
	for i := range l.entries {
		if isDeletion(b, l, i) {
			continue
		}
		if n == 0 {
			return entryKey(b, i)
		}
		n--
	}
	return 0
}

func isDeletion(b []byte, l *layout, i int) bool {
	return b[pageHeader+8*l.entries+i/8]>>(i%8)&1 != 0
}

func setDeletion(b []byte, l *layout, i int) {
	b[pageHeader+8*l.entries+i/8] |= 1 << (i % 8)
}

// recordSum is what follows a payload: it covers whose record it is and where,
// so that a row of another key, place or time is no row either.
func (s *Store) recordSum(payload []byte, key, gen uint64, segment, index uint32) uint32 {
	b := &s.summed
	le.PutUint64(b[:], key)
	le.PutUint64(b[8:], gen)
	le.PutUint32(b[16:], segment)
	le.PutUint32(b[20:], index)
	return crc32.Update(crc32.Update(0, castagnoli, b[:]), castagnoli, payload)
}
