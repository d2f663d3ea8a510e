package ssd

import (
	"fmt"
	"hash/crc32"
)

const (
	manifestMagic   = 0x314d5350 // "PSM1"
	manifestHeader  = 96
	manifestUnit    = 4096
	minManifestFile = 64 << 10
	maxManifestFile = 1 << 20 // but where one record needs more
	maxManifest     = 1 << 30 // of one record
	segmentEntry    = 32
	logEntryFixed   = 48
	maxName         = 255
)

// record is one commit point as the manifest has it, or one that compaction
// has made in between, which has the number and note of the one before.
//
//	0 magic u32 | 4 sum u32 | 8 length u32 | 12 version u16 | 14 full u16 | 16 store 16 bytes
//	32 serial u64 | 40 commit u64 | 48 clock u64 | 56 logs u32 | 60 segments u32 | 64 note length u32
//	68 zeros | 96 note | logs | segments
//
// A full one lists all logs and all segments that are in use, the others only
// what has changed. length is the bytes that count, the sum is CRC-32C of those
// behind it; the next record begins at the next multiple of 4096.
type record struct {
	full   bool
	store  [16]byte
	serial uint64
	commit uint64
	clock  uint64
	note   []byte
	logs   []logEntry
	segs   []segEntry
}

// logEntry is a log:
//
//	0 id u32 | 4 record u32 | 8 page u32 | 12 entries u32 | 16 slots u32 | 20 per block u32
//	24 data u32 | 28 pages u32 | 32 since u64 | 40 name length u32 | 44 zeros | 48 name
//
// Pages up to since are of before the log's Reset.
type logEntry struct {
	id    uint32
	name  string
	since uint64
	layout
}

// segEntry is a segment:
//
//	0 segment u32 | 4 log u32 (all ones: free) | 8 number in the log u32 | 12 pages u32
//	16 generation u64 | 24 kind u8 | 25 zero | 26 bad ranges u16 | 28 zeros | 32 first u16, count u16 each
type segEntry struct {
	segment uint32
	log     uint32
	local   uint32
	pages   int
	gen     uint64
	kind    uint8
	bad     []pageRange
}

// put appends the record, whole units.
func (r *record) put(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, manifestHeader)...)
	b = append(b, r.note...)
	for i := range r.logs {
		x := &r.logs[i]
		var e [logEntryFixed]byte
		for j, v := range []int{int(x.id), x.record, x.page, x.entries, x.slots, x.perBlock, x.data, x.pages} {
			le.PutUint32(e[4*j:], uint32(v))
		}
		le.PutUint64(e[32:], x.since)
		le.PutUint32(e[40:], uint32(len(x.name)))
		b = append(append(b, e[:]...), x.name...)
	}
	for i := range r.segs {
		x := &r.segs[i]
		var e [segmentEntry]byte
		le.PutUint32(e[0:], x.segment)
		le.PutUint32(e[4:], x.log)
		le.PutUint32(e[8:], x.local)
		le.PutUint32(e[12:], uint32(x.pages))
		le.PutUint64(e[16:], x.gen)
		e[24] = x.kind
		le.PutUint16(e[26:], uint16(len(x.bad)))
		b = append(b, e[:]...)
		for _, y := range x.bad {
			b = le.AppendUint16(le.AppendUint16(b, uint16(y.first)), uint16(y.count))
		}
	}
	h := b[start:]
	le.PutUint32(h, manifestMagic)
	le.PutUint32(h[8:], uint32(len(h)))
	le.PutUint16(h[12:], version)
	if r.full {
		le.PutUint16(h[14:], 1)
	}
	copy(h[16:], r.store[:])
	le.PutUint64(h[32:], r.serial)
	le.PutUint64(h[40:], r.commit)
	le.PutUint64(h[48:], r.clock)
	le.PutUint32(h[56:], uint32(len(r.logs)))
	le.PutUint32(h[60:], uint32(len(r.segs)))
	le.PutUint32(h[64:], uint32(len(r.note)))
	le.PutUint32(h[4:], crc32.Checksum(h[8:], castagnoli))
	return append(b, make([]byte, int(roundUp(int64(len(h)), manifestUnit))-len(h))...)
}

// recordLength is how long a record says that it is, 0 if b begins none.
func recordLength(b []byte) int {
	if len(b) < manifestHeader || le.Uint32(b) != manifestMagic {
		return 0
	}
	n := le.Uint32(b[8:])
	if n < manifestHeader || n > maxManifest {
		return 0
	}
	return int(n)
}

// get reads a record. It takes b from anybody.
func (r *record) get(b []byte) error {
	n := recordLength(b)
	if n == 0 || n > len(b) {
		return fmt.Errorf("there is no record")
	}
	b = b[:n]
	if le.Uint32(b[4:]) != crc32.Checksum(b[8:], castagnoli) {
		return fmt.Errorf("the record's sum is wrong")
	}
	if v := le.Uint16(b[12:]); v != version {
		return fmt.Errorf("the record has version %d, this program reads %d", v, version)
	}
	r.full = le.Uint16(b[14:]) == 1
	copy(r.store[:], b[16:])
	r.serial, r.commit, r.clock = le.Uint64(b[32:]), le.Uint64(b[40:]), le.Uint64(b[48:])
	logs, segs, note := int(le.Uint32(b[56:])), int(le.Uint32(b[60:])), int(le.Uint32(b[64:]))
	b = b[manifestHeader:]
	if note > MaxNote || note > len(b) || logs > len(b)/logEntryFixed || segs > len(b)/segmentEntry {
		return fmt.Errorf("the record counts more than it holds")
	}
	r.note, b = append([]byte(nil), b[:note]...), b[note:]
	r.logs, r.segs = make([]logEntry, 0, logs), make([]segEntry, 0, segs)
	var err error
	for range logs {
		if b, err = r.getLog(b); err != nil {
			return err
		}
	}
	for range segs {
		if b, err = r.getSegment(b); err != nil {
			return err
		}
	}
	if len(b) > 0 {
		return fmt.Errorf("the record has %d bytes too many", len(b))
	}
	return nil
}

func (r *record) getLog(b []byte) ([]byte, error) {
	if len(b) < logEntryFixed {
		return nil, fmt.Errorf("a log's entry is cut off")
	}
	at := func(i int) int { return int(le.Uint32(b[4*i:])) }
	x := logEntry{id: le.Uint32(b), since: le.Uint64(b[32:]),
		layout: layout{record: at(1), page: at(2), entries: at(3), slots: at(4), perBlock: at(5), data: at(6), pages: at(7)}}
	n := at(10)
	b = b[logEntryFixed:]
	if n > maxName || n > len(b) || x.id >= MaxLogs {
		return nil, fmt.Errorf("the entry of log %d makes no sense", x.id)
	}
	x.name = string(b[:n])
	r.logs = append(r.logs, x)
	return b[n:], nil
}

func (r *record) getSegment(b []byte) ([]byte, error) {
	if len(b) < segmentEntry {
		return nil, fmt.Errorf("a segment's entry is cut off")
	}
	x := segEntry{segment: le.Uint32(b), log: le.Uint32(b[4:]), local: le.Uint32(b[8:]), pages: int(le.Uint32(b[12:])), gen: le.Uint64(b[16:]), kind: b[24]}
	n := int(le.Uint16(b[26:]))
	b = b[segmentEntry:]
	if n*4 > len(b) || x.pages > 1<<15 || x.kind > kindCopy {
		return nil, fmt.Errorf("the entry of segment %d makes no sense", x.segment)
	}
	for range n {
		x.bad = append(x.bad, pageRange{int(le.Uint16(b)), int(le.Uint16(b[2:]))})
		b = b[4:]
	}
	r.segs = append(r.segs, x)
	return b, nil
}
