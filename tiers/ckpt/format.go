package ckpt

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
)

// Versions of the formats that this package writes; it reads all of them.
const (
	FormatModel   = 1 // one model in a directory
	FormatHistory = 2 // bases and deltas
	FormatPacked  = 3 // the same, with blocks that may be packed
)

// newest is the highest version that this package reads.
const newest = FormatPacked

const (
	headerBytes = 64
	blockHead   = 12
	footerBytes = 32

	kindRows  = 1
	kindDense = 2

	flagWeightsOnly = 1
	flagFP16        = 2 // weights are a scale and halves; format 2
	flagInt8        = 4 // weights are a scale and bytes; format 2
	flagLZ4         = 8 // blocks may be packed; format 3

	// What bytes of a block are packed by where it has no rows.
	idBytes    = 8
	floatBytes = 4

	headMagic = "PSRTPART"
	endMagic  = "PSRT-END"

	// blockBytes is when a block is full: large enough for the disk, small
	// enough to stay in cache while it is checked and decoded.
	blockBytes = 256 << 10
	// maxBlock bounds a payload: a full block and one more record of the
	// largest size. A length from a file is compared with it before use.
	maxBlock = 64 << 20

	// deletions in a block's number of records says that its records are ids
	// of rows that are gone; format 2.
	deletions = 1 << 31
	// packed there says that the payload is packed; format 3.
	packed = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the fixed beginning of a part.
type header struct {
	version, kind, table, record uint32
	flags                        uint32
	// number and id are the generation's; 0 in format 1. They keep a part of
	// another generation from being taken for this one's.
	number, id uint64
	// part is the part's own id, drawn at random by its writer, as the manifest
	// states it; 0 in parts written before there were any.
	part partID
}

// partID keeps every other part, of this model too, from being taken for this one.
type partID [16]byte

func (id partID) String() string { return hex.EncodeToString(id[:]) }

// parsePartID is String's inverse; "" is the id of a part that has none.
func parsePartID(s string) (id partID, ok bool) {
	n, err := hex.Decode(id[:], []byte(s[:min(len(s), 2*len(id))]))
	return id, err == nil && len(s) == 2*n && (n == 0 || n == len(id) && id != partID{})
}

func (h header) encode() []byte {
	b := make([]byte, headerBytes)
	copy(b, headMagic)
	le := binary.LittleEndian
	le.PutUint32(b[8:], h.version)
	le.PutUint32(b[12:], h.kind)
	le.PutUint32(b[16:], h.table)
	le.PutUint32(b[20:], h.record)
	le.PutUint32(b[24:], h.flags)
	le.PutUint64(b[28:], h.number)
	le.PutUint64(b[36:], h.id)
	copy(b[44:], h.part[:])
	le.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	return b
}

// decodeHeader refuses all but what encode makes.
func decodeHeader(b []byte) (header, error) {
	le := binary.LittleEndian
	if len(b) < headerBytes || string(b[:8]) != headMagic {
		return header{}, fmt.Errorf("it is not a part of a model")
	}
	if crc32.Checksum(b[:60], castagnoli) != le.Uint32(b[60:]) {
		return header{}, fmt.Errorf("its header is damaged")
	}
	h := header{version: le.Uint32(b[8:]), kind: le.Uint32(b[12:]), table: le.Uint32(b[16:]), record: le.Uint32(b[20:]),
		flags: le.Uint32(b[24:]), number: le.Uint64(b[28:]), id: le.Uint64(b[36:]), part: partID(b[44:60])}
	if h.version < 1 || h.version > newest {
		return header{}, fmt.Errorf("it has format %d, this psrt reads 1 to %d", h.version, newest)
	}
	return h, nil
}

// blockHeader describes a payload.
func blockHeader(payload []byte, records uint32) [blockHead]byte {
	var b [blockHead]byte
	binary.LittleEndian.PutUint32(b[0:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[4:], records)
	crc := crc32.Update(crc32.Checksum(b[:8], castagnoli), castagnoli, payload)
	binary.LittleEndian.PutUint32(b[8:], crc)
	return b
}

// footer counts what came before it.
type footer struct{ blocks, records uint64 }

func (f footer) encode() []byte {
	b := make([]byte, footerBytes)
	copy(b, endMagic)
	binary.LittleEndian.PutUint64(b[8:], f.blocks)
	binary.LittleEndian.PutUint64(b[16:], f.records)
	binary.LittleEndian.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
	return b
}

func decodeFooter(b []byte) (footer, error) {
	if len(b) < footerBytes || string(b[:8]) != endMagic ||
		crc32.Checksum(b[:28], castagnoli) != binary.LittleEndian.Uint32(b[28:]) {
		return footer{}, fmt.Errorf("its footer is damaged or missing")
	}
	return footer{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}, nil
}
