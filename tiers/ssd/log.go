package ssd

import (
	"fmt"
	"slices"
)

// Log is one table's records in a store.
type Log struct {
	s      *Store
	id     uint32
	name   string
	cfg    LogConfig
	layout layout
	slots  uint32 // in a segment
	unit   int64  // bytes of disk that a live record takes, with its part of the summaries

	fresh, copies stream
	local         []uint32 // segment by its number in the log
	freeLocal     []uint32
	live          int
	since         uint64
	deletes       bool // there are deletions, or were
	oldest        oldest

	order []uint64 // of a Read's rows
}

// Log finds or makes the log of that name, and waits for its keys.
func (s *Store) Log(name string, cfg LogConfig) (*Log, error) {
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.err != nil:
		return nil, s.err
	case len(name) > maxName:
		return nil, fmt.Errorf("ssd: a log's name of %d bytes, want at most %d", len(name), maxName)
	case cfg.Recover == nil || cfg.Gone == nil || cfg.Moved == nil || cfg.Slot == nil:
		return nil, fmt.Errorf("ssd: log %q: Recover, Gone, Moved and Slot are wanted", name)
	}
	id, ok := s.byName[name]
	if ok && s.logs[id] != nil {
		return nil, fmt.Errorf("ssd: log %q is in use already", name)
	}
	if !ok {
		var err error
		if id, err = s.newLog(name, cfg.RecordBytes); err != nil {
			return nil, err
		}
	}
	e := s.known[id]
	if e.record != cfg.RecordBytes {
		return nil, fmt.Errorf("ssd: log %q has records of %d bytes, %d are wanted; the table has another shape now: give empty directories", name, e.record, cfg.RecordBytes)
	}
	l := &Log{s: s, id: id, name: name, cfg: cfg, layout: e.layout, since: e.since}
	l.slots = uint32(e.perSegment())
	l.unit = int64((s.segmentBytes + int(l.slots) - 1) / int(l.slots))
	for _, st := range []*stream{&l.fresh, &l.copies} {
		*st = stream{log: l, open: slices.Repeat([]uint32{NoSlot}, len(s.disks)), next: int(id) % len(s.disks)}
	}
	l.copies.kind = kindCopy
	if ok {
		if err := s.recoverLog(l); err != nil {
			return nil, err
		}
	}
	s.logs[id] = l
	return l, nil
}

func (s *Store) newLog(name string, record int) (uint32, error) {
	if len(s.known) >= MaxLogs {
		return 0, fmt.Errorf("ssd: log %q is one more than %d", name, MaxLogs)
	}
	lay, err := newLayout(record, s.block, s.segmentBytes)
	if err != nil {
		return 0, err
	}
	id := uint32(len(s.known))
	s.known[id] = logEntry{id: id, name: name, layout: lay}
	s.byName[name] = id
	s.commits.newLogs = append(s.commits.newLogs, id)
	return id, nil
}

// Append writes a row and returns its place, from which it can be read at once.
// The slot that the key had stays taken until Free. ErrBusy means later.
func (l *Log) Append(key uint64, payload []byte) (slot uint32, err error) {
	if len(payload) != l.layout.record {
		return NoSlot, fmt.Errorf("ssd: log %q: a record of %d bytes, want %d", l.name, len(payload), l.layout.record)
	}
	if err := l.s.writable(); err != nil {
		return NoSlot, err
	}
	slot, err = l.fresh.append(key, payload)
	if err == nil {
		l.s.userWritten += int64(len(payload))
	}
	return slot, l.s.promise(err)
}

// Delete writes that key has no row. Its slot stays taken until Free, which has
// to come before the next Poll.
func (l *Log) Delete(key uint64) error {
	if err := l.s.writable(); err != nil {
		return err
	}
	if l.s.cfg.Scratch {
		return nil
	}
	return l.s.promise(l.fresh.delete(key))
}

// promise sees to it that who is told ErrBusy is told when to Poll: a disk is at work,
// or there is something that Poll itself does.
func (s *Store) promise(err error) error {
	if err != ErrBusy {
		return err
	}
	m := &s.commits
	if m.running == nil && s.returning > 0 {
		m.pressed = true
	}
	s.pump()
	if s.searches() || m.running == nil && (m.pressed || m.queued != nil) {
		s.signal()
	}
	return err
}

func (s *Store) writable() error {
	if s.closed {
		return ErrClosed
	}
	return s.err
}

func (st *stream) append(key uint64, payload []byte) (uint32, error) {
	if err := st.room(true); err != nil {
		return NoSlot, err
	}
	log, c := st.log, st.cur
	s, l := log.s, &log.layout
	g := &s.segs[c.seg]
	index := (c.first+c.page)*l.slots + c.records
	b := c.data(c.page)[l.at(c.records):][:l.stored()]
	copy(b, payload)
	le.PutUint32(b[l.record:], s.recordSum(b[:l.record], key, g.gen, c.seg, uint32(index)))
	st.entry(key)
	c.records++
	g.bits[index/64] |= 1 << (index % 64)
	g.live++
	g.rows++
	log.live++
	s.live += log.unit
	return g.local*log.slots + uint32(index), nil
}

func (st *stream) entry(key uint64) {
	s, c := st.log.s, st.cur
	s.clock++
	if c.entries == 0 {
		c.since = s.clock
	}
	setEntryKey(c.summary(c.page), c.entries, key)
	c.entries++
}

func (st *stream) delete(key uint64) error {
	if err := st.room(false); err != nil {
		return err
	}
	c := st.cur
	setDeletion(c.summary(c.page), &st.log.layout, c.entries)
	st.entry(key)
	st.log.s.segs[c.seg].tombs++
	st.log.deletes = true
	return nil
}

// deleteAt is delete as it was at a time; it takes two entries.
func (st *stream) deleteAt(key, time uint64) error {
	for {
		if err := st.room(false); err != nil {
			return err
		}
		if st.cur.entries+2 <= st.log.layout.entries {
			break
		}
		st.closePage()
	}
	c := st.cur
	for _, v := range []uint64{key, time} {
		setDeletion(c.summary(c.page), &st.log.layout, c.entries)
		st.entry(v)
	}
	g := &st.log.s.segs[c.seg]
	g.tombs++
	g.tombEnd = max(g.tombEnd, time)
	return nil
}

// locate is the segment of a slot and the record's number in it.
func (l *Log) locate(slot uint32) (seg uint32, index int, ok bool) {
	local := slot / l.slots
	if int(local) >= len(l.local) || l.local[local] == NoSlot {
		return 0, 0, false
	}
	return l.local[local], int(slot % l.slots), true
}

// Free says that the row in slot is not used any more. The room comes back when
// a commit that was called for after this is durable. A slot that is free
// already stays so.
func (l *Log) Free(slot uint32) {
	if l.s.closed {
		return
	}
	if n, index, ok := l.locate(slot); ok && l.bury(n, index) {
		g := &l.s.segs[n]
		g.freeCommit = l.s.commits.next
		l.s.reclaim(n)
		if l.s.cfg.Scratch {
			l.s.compact.idle = false
		}
	}
}

// bury makes a record dead; false if it is.
func (l *Log) bury(n uint32, index int) bool {
	g := &l.s.segs[n]
	if !g.isLive(index) {
		return false
	}
	g.bits[index/64] &^= 1 << (index % 64)
	g.live--
	l.live--
	l.s.live -= l.unit
	return true
}

// Reset forgets all rows of the log.
func (l *Log) Reset() error {
	if err := l.s.writable(); err != nil {
		return err
	}
	s := l.s
	l.fresh.flush()
	l.copies.flush()
	l.since = s.clock
	for _, n := range l.local {
		if n == NoSlot {
			continue
		}
		g := &s.segs[n]
		clear(g.bits)
		s.live -= int64(g.live) * l.unit
		l.live -= g.live
		g.live, g.tombs = 0, 0
		g.freeCommit = s.commits.next
	}
	if !s.cfg.Scratch {
		if s.commits.resets == nil {
			s.commits.resets = map[uint32]uint64{}
		}
		s.commits.resets[l.id] = l.since
	}
	for _, n := range slices.Clone(l.local) {
		if n != NoSlot {
			s.reclaim(n)
		}
	}
	return nil
}

// Len is the number of live rows.
func (l *Log) Len() int { return l.live }

// takeLocal gives a segment its number in the log.
func (l *Log) takeLocal() (uint32, error) {
	if n := len(l.freeLocal); n > 0 {
		x := l.freeLocal[n-1]
		l.freeLocal = l.freeLocal[:n-1]
		return x, nil
	}
	if (uint64(len(l.local))+1)*uint64(l.slots) > MaxSlots {
		return 0, fmt.Errorf("ssd: log %q has all its %d slots in segments: %w", l.name, len(l.local)*int(l.slots), ErrFull)
	}
	l.local = append(l.local, NoSlot)
	return uint32(len(l.local) - 1), nil
}

func (l *Log) giveLocal(x uint32) {
	l.local[x] = NoSlot
	l.freeLocal = append(l.freeLocal, x)
}
