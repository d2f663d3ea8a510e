package ssd

import "fmt"

// layout is where in a segment a log's pages and records lie. It is kept in the
// manifest: a later version may choose otherwise for new logs.
type layout struct {
	record   int // bytes of a payload
	page     int // bytes of a summary page, one block
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

// group is how many pages one buffer takes.
func (l *layout) group() int { return max(1, min(chunkBytes/(l.page+l.data), l.pages)) }

// entriesIn is how many entries of 8 bytes and a bit fit in a page.
func entriesIn(page int) int { return (page - pageHeader) * 8 / 65 }

// newLayout takes the number of records a page that wastes least. Records stay
// within blocks where that wastes at most 1/16, so that most reads are of one.
func newLayout(record, block, segment int) (layout, error) {
	if record < 1 || record > MaxRecordBytes {
		return layout{}, fmt.Errorf("ssd: records of %d bytes, want 1 to %d", record, MaxRecordBytes)
	}
	best := layout{}
	kept := 0
	l := layout{record: record, page: block, entries: entriesIn(block), block: block}
	if n := block / l.stored(); n > 0 && (block-n*l.stored())*16 <= block {
		l.perBlock = n
	}
	// An eighth of the entries is for deletions.
	for l.slots = max(1, min(l.entries-l.entries/8, chunkData/l.stored())); l.slots > 0; l.slots-- {
		l.data = l.used(l.slots)
		if l.page+l.data > chunkBytes {
			continue
		}
		l.pages = min(segment/(l.page+l.data), 1<<15)
		for l.pages > 0 && l.dataStart()+int64(l.pages*l.data) > int64(segment) {
			l.pages--
		}
		if n := l.perSegment(); n > kept {
			best, kept = l, n
		}
	}
	if kept == 0 {
		return layout{}, fmt.Errorf("ssd: a segment of %d bytes has no room for a record of %d", segment, record)
	}
	return best, nil
}

// check is for a layout that was read from a disk.
func (l *layout) check(block, segment int) error {
	ok := l.record >= 1 && l.record <= MaxRecordBytes && l.block == block && l.page == block &&
		l.entries >= 1 && l.entries <= entriesIn(block) && l.slots >= 1 && l.slots <= l.entries &&
		l.perBlock >= 0 && l.perBlock*l.stored() <= block && l.pages >= 1 && l.pages <= 1<<15 && l.data >= 0
	if !ok || l.data != l.used(l.slots) || l.page+l.data > chunkBytes || l.dataStart()+int64(l.pages)*int64(l.data) > int64(segment) {
		return fmt.Errorf("its layout %+v does not fit blocks of %d and segments of %d bytes", *l, block, segment)
	}
	return nil
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
