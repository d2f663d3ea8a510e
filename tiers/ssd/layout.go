package ssd

import "fmt"

// layout is where in a segment a log's pages and records lie. It is kept in the
// manifest: a later version may choose otherwise for new logs.
type layout struct {
	record   int // bytes of a payload
	page     int // bytes of a summary page, one block or writeUnit
	entries  int // that a page has room for: records and deletions
	slots    int // records that belong to a page
	perBlock int // records in each block; 0: one behind the other, over blocks' ends
	data     int // bytes of a page's records, whole blocks
	pages    int // in a segment
	block    int
}

// sumBytes follow each payload.
const sumBytes = 4

func (l *layout) stored() int { return l.record + sumBytes }

// dataStart is where the records begin in a segment, behind all summaries.
func (l *layout) dataStart() int64 { return roundUp(int64(l.pages)*int64(l.page), 4096) }

// at is where record i lies among its page's records.
func (l *layout) at(i int) int {
	if l.perBlock == 0 {
		return i * l.stored()
	}
	return i/l.perBlock*l.block + i%l.perBlock*l.stored()
}

// used is how many bytes n records take, whole blocks.
func (l *layout) used(n int) int {
	if n == 0 {
		return 0
	}
	return int(roundUp(int64(l.at(n-1)+l.stored()), int64(l.block)))
}

// perSegment is how many slots a segment has.
func (l *layout) perSegment() int { return l.slots * l.pages }

// align is how many pages make whole units of writing, together with their
// records.
func (l *layout) align() int { return writeUnit / l.page }

// group is how many pages one buffer takes.
func (l *layout) group() int {
	n := chunkBytes / (l.page + l.data)
	return min(n-n%l.align(), l.pages)
}

// room is what a page's records take: whole blocks, and whole units where a page
// is one.
func (l *layout) room() int { return int(roundUp(int64(l.used(l.slots)), int64(writeUnit/l.align()))) }

// entriesIn is how many entries of 8 bytes and a bit fit in a page.
func entriesIn(page int) int { return (page - pageHeader) * 8 / 65 }

// newLayout takes the size of pages and the number of records in them that waste
// least. Records stay within blocks where that wastes at most 1/16, so that most
// reads are of one.
func newLayout(record, block, segment int) (layout, error) {
	if record < 1 || record > MaxRecordBytes {
		return layout{}, fmt.Errorf("ssd: records of %d bytes, want 1 to %d", record, MaxRecordBytes)
	}
	best, most := layout{}, -MaxRecordBytes*2
	for page := block; page <= writeUnit; page *= writeUnit / block {
		l := layout{record: record, page: page, entries: entriesIn(page), block: block}
		if n := block / l.stored(); n > 0 && (block-n*l.stored())*16 <= block {
			l.perBlock = n
		}
		// An eighth of the entries is for deletions.
		for l.slots = l.entries - l.entries/8; l.slots > 0; l.slots-- {
			l.data = l.room()
			if l.align()*(l.page+l.data) > chunkBytes {
				continue
			}
			l.pages = min(segment/(l.page+l.data), 1<<15)
			for l.pages -= l.pages % l.align(); l.pages > 0 && l.dataStart()+int64(l.pages*l.data) > int64(segment); {
				l.pages -= l.align()
			}
			// A commit wastes half a page's room: count one a segment.
			if kept := l.perSegment()*l.stored() - l.data/2; l.pages > 0 && kept > most {
				best, most = l, kept
			}
		}
		if block == writeUnit {
			break
		}
	}
	if best.perSegment() == 0 {
		return layout{}, fmt.Errorf("ssd: a segment of %d bytes has no room for a record of %d", segment, record)
	}
	return best, nil
}

// check is for a layout that was read from a disk.
func (l *layout) check(block, segment int) error {
	ok := l.record >= 1 && l.record <= MaxRecordBytes && l.block == block && (l.page == block || l.page == writeUnit) &&
		l.entries >= 1 && l.entries <= entriesIn(l.page) && l.slots >= 1 && l.slots <= l.entries &&
		l.perBlock >= 0 && l.perBlock*l.stored() <= block && l.pages >= 1 && l.pages <= 1<<15
	if !ok || l.pages%l.align() != 0 || l.data != l.room() || l.align()*(l.page+l.data) > chunkBytes || l.dataStart()+int64(l.pages)*int64(l.data) > int64(segment) {
		return fmt.Errorf("its layout %+v does not fit blocks of %d and segments of %d bytes", *l, block, segment)
	}
	return nil
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
