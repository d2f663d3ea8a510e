package inference

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	"psrt/tiers/export/quant"
	"psrt/tiers/table"
)

// Format is the version this package writes; it reads all up to it.
const Format = 2

const (
	headMagic = "PSRTINFR"
	endMagic  = "PSRT-END"

	headerBytes = 4096
	footerBytes = 64
	blockHead   = 16
	alignment   = 64

	minBlock, maxBlock = 4096, 1 << 20
	flagOn             = 1 // rows go on in the next block
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is what the file says of itself at its start.
type Header struct {
	Table  uint32 // ID
	Layout quant.Layout
	// Version is the file's format. Content is the digest of its rows, as they are in
	// the file; 0 in format 1. It says which table's file it is, of all there are.
	Version uint32
	Content table.Digest

	blockBytes, capacity int
	rowsAt               int // in a block
	homes                uint64
}

// newHeader chooses blocks for a table of so many rows.
func newHeader(id uint32, l quant.Layout, rows int64, content table.Digest) (Header, error) {
	if err := l.Validate(); err != nil {
		return Header{}, err
	}
	if l.Dim > table.MaxDim {
		return Header{}, fmt.Errorf("inference: rows of %d weights, at most %d", l.Dim, table.MaxDim)
	}
	h := Header{Table: id, Layout: l, Version: Format, Content: content, blockBytes: minBlock}
	for h.fit(); h.capacity < 4 || h.capacity < 32 && h.blockBytes < 64<<10; h.fit() {
		h.blockBytes *= 2
	}
	perHome := uint64(h.capacity) * 7
	h.homes = (uint64(rows)*8 + perHome - 1) / perHome
	return h, nil
}

// fit computes how many rows a block holds, and where.
func (h *Header) fit() {
	h.capacity = (h.blockBytes - blockHead) / (8 + h.Layout.Bytes())
	for {
		h.rowsAt = (blockHead + 8*h.capacity + alignment - 1) &^ (alignment - 1)
		if h.capacity == 0 || h.rowsAt+h.capacity*h.Layout.Bytes() <= h.blockBytes {
			return
		}
		h.capacity--
	}
}

func (h *Header) encode() []byte {
	b := make([]byte, headerBytes)
	copy(b, headMagic)
	le := binary.LittleEndian
	for i, v := range []uint32{h.Version, h.Table, uint32(h.Layout.Dim), uint32(h.Layout.Encoding), uint32(h.Layout.Exact),
		uint32(h.Layout.Bytes()), uint32(h.blockBytes), uint32(h.capacity)} {
		le.PutUint32(b[8+4*i:], v)
	}
	le.PutUint64(b[40:], h.homes)
	copy(b[48:], h.Content[:])
	le.PutUint32(b[headerBytes-4:], crc32.Checksum(b[:headerBytes-4], castagnoli))
	return b
}

// decodeHeader refuses all but what encode makes.
func decodeHeader(b []byte) (Header, error) {
	le := binary.LittleEndian
	if len(b) < headerBytes || string(b[:8]) != headMagic {
		return Header{}, fmt.Errorf("it is not an inference table")
	}
	// A later version may be checked in another way, so it comes first.
	if v := le.Uint32(b[8:]); v < 1 || v > Format {
		return Header{}, fmt.Errorf("it has format %d, this psrt reads 1 to %d; use a newer psrt", v, Format)
	}
	if crc32.Checksum(b[:headerBytes-4], castagnoli) != le.Uint32(b[headerBytes-4:]) {
		return Header{}, fmt.Errorf("its header is damaged")
	}
	h := Header{Table: le.Uint32(b[12:]), Version: le.Uint32(b[8:]), blockBytes: int(le.Uint32(b[32:])), homes: le.Uint64(b[40:]),
		Layout: quant.Layout{Dim: int(le.Uint32(b[16:])), Encoding: quant.Encoding(le.Uint32(b[20:])), Exact: int(le.Uint32(b[24:]))}}
	if h.Version > 1 {
		h.Content = table.Digest(b[48:80])
	}
	if err := h.Layout.Validate(); err != nil {
		return Header{}, err
	}
	if h.Layout.Dim > table.MaxDim || h.blockBytes < minBlock || h.blockBytes > maxBlock || bits.OnesCount(uint(h.blockBytes)) != 1 {
		return Header{}, fmt.Errorf("it states rows of %d weights in blocks of %d bytes", h.Layout.Dim, h.blockBytes)
	}
	h.fit()
	if rowBytes, capacity := int(le.Uint32(b[28:])), int(le.Uint32(b[36:])); rowBytes != h.Layout.Bytes() || capacity != h.capacity || capacity == 0 {
		return Header{}, fmt.Errorf("it states %d rows of %d bytes in a block of %d bytes", capacity, rowBytes, h.blockBytes)
	}
	return h, nil
}

func encodeFooter(blocks, rows uint64) []byte {
	b := make([]byte, footerBytes)
	copy(b, endMagic)
	binary.LittleEndian.PutUint64(b[8:], blocks)
	binary.LittleEndian.PutUint64(b[16:], rows)
	binary.LittleEndian.PutUint32(b[footerBytes-4:], crc32.Checksum(b[:footerBytes-4], castagnoli))
	return b
}

func decodeFooter(b []byte) (blocks, rows uint64, err error) {
	if len(b) < footerBytes || string(b[:8]) != endMagic ||
		crc32.Checksum(b[:footerBytes-4], castagnoli) != binary.LittleEndian.Uint32(b[footerBytes-4:]) {
		return 0, 0, fmt.Errorf("its footer is damaged or missing")
	}
	return binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), nil
}

// tag is in every block of a file: no block of another table's counts. 0 in format 1.
func (h *Header) tag() uint32 { return binary.LittleEndian.Uint32(h.Content[:]) }

// blockSum is the checksum of a block at its place.
func blockSum(number uint64, block []byte) uint32 {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], number)
	return crc32.Update(crc32.Checksum(n[:], castagnoli), castagnoli, block[4:])
}
