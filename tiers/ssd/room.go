package ssd

// roomShare is what live rows may take of a limited store, in eighths, while it says that
// there is room: compaction gains nothing where all of it lives.
const roomShare = 7

// Room is for how many further rows a limited store has room, as things are: less than none
// where there are more. A store without a limit does not know. Calls belong to the owner.
func (l *Log) Room() (rows int64, limited bool) {
	s := l.s
	if s.cfg.Limit == 0 {
		return 0, false
	}
	segments := s.limitSegments - s.spare() - len(s.disks) // which are being written
	return (int64(segments)*int64(s.segmentBytes)/8*roomShare - s.live) / l.unit, true
}
