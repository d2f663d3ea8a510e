package ssd

// Stats is what a store holds, takes and has done since it was opened.
type Stats struct {
	Rows      int   // live, of the logs that are in use
	LiveBytes int64 // of their records
	DiskBytes int64 // of segments that hold anything, live or dead
	FileBytes int64 // of all files, whether in use or not; what is punched is not counted
	Memory    int64 // buffers and tables

	Commits      uint64
	CopiedRows   uint64 // by compaction
	Compacted    uint64 // segments
	Stuck        uint64 // segments that hold damage
	Damaged      uint64 // records and pages with wrong sums that were met
	Mended       uint64 // summary pages of which one bit was put right
	ReadErrors   uint64
	WriteErrors  uint64
	ReadRows     uint64 // from disks
	ReadRequests uint64
	ReadBytes    int64
	ReadBuffered uint64 // rows that were still in memory
	Appended     int64  // bytes of payloads, by the owner
	Written      int64  // bytes to disks, of all kinds
}

// Stats counts.
func (s *Store) Stats() Stats {
	t := s.counted
	t.Appended, t.Written = s.userWritten, s.diskWritten
	for _, l := range s.logs {
		t.Rows += l.live
		t.LiveBytes += int64(l.live) * int64(l.layout.record)
		t.Memory += int64(4*cap(l.local)+4*cap(l.freeLocal)+8*cap(l.order)) + 256
	}
	punched := 0
	for _, d := range s.disks {
		t.Memory += d.memory
		punched += len(d.punched)
	}
	for i := range s.segs {
		t.Memory += int64(8 * cap(s.segs[i].bits))
	}
	t.Memory += int64(cap(s.segs))*segmentStruct + int64(len(s.ops))*opStruct
	t.DiskBytes = int64(s.used) * int64(s.segmentBytes)
	t.FileBytes = int64(s.total-punched)*int64(s.segmentBytes) + 2*s.man.size
	return t
}

// About what one takes in memory.
const (
	segmentStruct = 208
	opStruct      = 256
)
