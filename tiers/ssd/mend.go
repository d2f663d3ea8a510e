package ssd

import (
	"hash/crc32"
	"math/bits"

	"psrt/tiers/blk"
)

// mendPage puts one bit of a summary page right, if one bit is all that has
// changed: true. Two pages with right sums differ in four bits at least (the
// distance of CRC-32C up to 2^31 bits), so that one changed bit has one place
// only, and of two changed ones it makes no page.
func mendPage(b []byte) bool {
	magic := le.Uint32(b) ^ pageMagic
	sum := crc32.Checksum(b[8:], castagnoli) ^ le.Uint32(b[4:])
	switch {
	case magic != 0:
		if sum != 0 || bits.OnesCount32(magic) != 1 {
			return false
		}
		le.PutUint32(b, pageMagic)
		return true
	case sum == 0:
		return false
	case bits.OnesCount32(sum) == 1:
		le.PutUint32(b[4:], le.Uint32(b[4:])^sum)
		return true
	}
	// What each bit of a byte adds to the sum, from the last byte to the first.
	var adds [8]uint32
	for i := range adds {
		adds[i] = castagnoli[1<<i]
	}
	for at := len(b) - 1; at >= 8; at-- {
		for i, x := range adds {
			if x == sum {
				b[at] ^= 1 << i
				return true
			}
			adds[i] = castagnoli[byte(x)] ^ x>>8
		}
	}
	return false
}

// openMended is openPage, which mends the page if it has to.
func (s *Store) openMended(b []byte, l *layout) (p pageInfo, mended bool, why string) {
	if p, why = openPage(b, l); why != "" && mendPage(b) {
		if p, why = openPage(b, l); why == "" {
			s.counted.Mended++
			return p, true, ""
		}
	}
	return p, false, why
}

// proven holds a mended page's keys against the sums of its records: more than
// one bit may have changed so that a wrong one was put right.
func (r *recovery) proven(c *cursor, p *pageInfo, page []byte) (bool, error) {
	if p.records == 0 {
		return true, nil
	}
	g, lay := &r.s.segs[c.seg], &r.l.layout
	d := g.ext.d
	buf := d.takeChunk(0)
	if buf == nil {
		return false, nil
	}
	defer d.giveChunk(buf)
	data := buf[:lay.data]
	if _, err := r.s.do(d, blk.Request{Op: blk.Read, File: g.ext.file, Buf: data,
		Offset: r.s.offset(c.seg) + lay.dataStart() + int64(p.page)*int64(lay.data)}); err != nil {
		return false, err
	}
	n := 0
	for i := range p.entries {
		if isDeletion(page, lay, i) {
			continue
		}
		b := data[lay.at(n):][:lay.stored()]
		if r.s.recordSum(b[:lay.record], entryKey(page, i), p.gen, p.segment, uint32(p.page*lay.slots+n)) != le.Uint32(b[lay.record:]) {
			return false, nil
		}
		n++
	}
	return true, nil
}
