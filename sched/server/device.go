package server

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"psrt/sched/psmsg"
	"psrt/tiers"
	"psrt/tiers/hbm"
	"psrt/tiers/table"
)

// Device has a server's tables keep the rows of coming batches on a device, a GPU
// or its twin, over the tiers that there are without it.
type Device struct {
	Device   hbm.Device
	MaxBytes int64 // of it, for all lanes
	// Journal is how much of the host's memory, for all lanes, what is done on the device is written
	// down in, so that the server survives its failure, and more where that is too little for some
	// rows of each lane's part of each table; 0: it does not.
	Journal int64
	Policy  string
	// BatchRows and LookAhead are Storage's.
	BatchRows, LookAhead int
}

// onDevice puts a table's rows on the device that there is.
func (l *lane) onDevice(rows tiers.Rows) (tiers.Rows, error) {
	below, ok := rows.(hbm.Below)
	if l.cfg.Device == nil || !ok {
		return rows, nil
	}
	cfg := l.deviceConfig(rows.Spec())
	cfg.Lost = func(rows int, err error) {
		l.cfg.Warn(fmt.Sprintf("lane %d, table %q: %v; nothing is lost: %d rows that were changed there are made again, and all lie in the tiers below from now on", l.global, below.Spec().Name, err, rows))
	}
	said := false
	cfg.Gap = func(rows int) {
		if !said { // how it goes on psrt_tier_device_unwritten tells
			l.cfg.Warn(fmt.Sprintf("lane %d, table %q: %d rows are changed on the device and not written down, for the tiers below have not taken what fills the journal (%d bytes a table and lane), or was changed before an event of its lifecycle: until they have, the device's failure would end the server; give --hbm-journal more, or disks that are faster", l.global, below.Spec().Name, rows, cfg.Journal))
		}
		said = true
	}
	c, err := hbm.New(below, cfg)
	if errors.Is(err, hbm.ErrDevice) { // nothing is lost but speed
		l.cfg.Warn(fmt.Sprintf("lane %d keeps table %q in the tiers below: %v", l.global, rows.Spec().Name, err))
		return rows, nil
	}
	if err != nil {
		_ = rows.Close()
		return nil, err
	}
	if why := c.Unwritten(); why != nil && l.cfg.Device.Journal > 0 {
		l.cfg.Warn(fmt.Sprintf("lane %d, table %q: the rows of a device that fails are gone with it: %v (--hbm-journal)", l.global, rows.Spec().Name, why))
	}
	return c, nil
}

func (l *lane) deviceConfig(spec table.Spec) hbm.Config {
	d := l.cfg.Device
	parts := int64(l.cfg.Map.LanesOf(l.cfg.ID)) * int64(max(1, len(l.cfg.Tables)))
	room := d.MaxBytes / parts
	rows := cmp.Or(d.BatchRows/l.cfg.Map.Lanes(), 1024)
	rows = max(1, min(rows, int(room/int64(spec.RowBytes())/batchesInMemory)))
	for rows > 1 && d.Device.Slots(&spec, room, rows) < 2*rows { // it takes some to work with
		rows /= 2
	}
	journal := d.Journal / parts
	if d.Journal > 0 { // of many parts each has some all the same
		journal = max(journal, hbm.LeastJournal(spec, rows))
	}
	return hbm.Config{Device: d.Device, MaxBytes: room, Journal: journal, BatchRows: rows, Policy: d.Policy,
		Window: max(d.LookAhead, 1) + 1, Node: l.cfg.Node}
}

// noteDevice says what holds the rows of coming batches, where it holds some table's;
// of the others a lane has said why not.
func (s *Server) noteDevice() {
	onDevice := func(l *lane) bool {
		return slices.ContainsFunc(l.order, func(t *tableState) bool { return t.device != nil })
	}
	if d := s.cfg.Device; d != nil && slices.ContainsFunc(s.lanes, onDevice) {
		whose := ""
		if s.cfg.Chain != nil { // a process has several
			whose = fmt.Sprintf(" of group %d", s.cfg.Chain.Group)
		}
		s.cfg.Note(fmt.Sprintf("rows of coming batches%s lie in %d bytes of %s", whose, d.MaxBytes, d.Device.Name()))
	}
}

// DeviceError means that a server has ended with the device that its rows were on.
type DeviceError struct {
	Server, Lane int
	Err          error
}

func (e *DeviceError) Error() string {
	return fmt.Sprintf("server %d, lane %d: %v; the rows on it are gone, what was checkpointed or saved before is safe: resume from that; give --hbm-journal, which has what was done to them, or --replicas 2, or leave --hbm-budget out", e.Server, e.Lane, e.Err)
}

// Unwrap gives the device's error.
func (e *DeviceError) Unwrap() error { return e.Err }

// deviceLost says whether the device of a table has failed, and its rows with it: a journal
// would have them. Then a copy of a group
// gives itself up, and any other server ends; who has asked is not answered.
func (l *lane) deviceLost(t *tableState) bool {
	if t.device == nil {
		return false
	}
	err := t.device.Failed()
	switch {
	case err == nil:
		return false
	case l.chain != nil:
		l.chain.fail(err)
	default:
		l.refusal = err
		l.lost(&DeviceError{l.cfg.ID, l.global, err})
	}
	return true
}

// deviceError is how a table's device has failed, with its rows; nil: none has.
func (l *lane) deviceError() error {
	for _, t := range l.order {
		if t.device == nil {
			continue
		}
		if err := t.device.Failed(); err != nil {
			return err
		}
	}
	return nil
}

// hasTiers says whether rows lie anywhere but in memory.
func (l *lane) hasTiers() bool { return l.storage != nil || l.cfg.Device != nil }

// addDevice adds what a lane's device holds of a table.
func addDevice(t *psmsg.TierStats, d tiers.DeviceStats) {
	if d.Name == "" {
		return
	}
	t.OnDevice(d.Name)
	t.DeviceRows += int64(d.Rows)
	t.DeviceBytes += d.Bytes
	t.DeviceHits += d.Hits
	t.DeviceMisses += d.Misses
	t.DeviceEvicted += d.Evicted
	t.DeviceAhead += d.CopiedAhead
	t.DevicePutBack += d.PutBack
	t.DeviceBytesIn += d.BytesIn
	t.DeviceBytesOut += d.BytesOut
	t.DeviceWaited += d.Waited.Seconds()
	t.DeviceCopiesIn += d.CopiesIn.Seconds()
	t.DeviceKernels += d.Kernels.Seconds()
	t.DeviceCopiesOut += d.CopiesOut.Seconds()
	t.DeviceUnwritten += int64(d.Unwritten)
	if d.Failed != "" {
		t.DeviceFailed, t.DeviceFailedParts = d.Failed, t.DeviceFailedParts+1
	}
}

// addDisks adds what the disks of a lane hold, which all its tables share.
func (l *lane) addDisks(rep *psmsg.StatsReply) {
	if l.storage == nil {
		return
	}
	if rep.Disks == nil {
		rep.Disks = &psmsg.DiskStats{LimitBytes: l.cfg.Storage.LimitBytes}
	}
	s, d := l.storage.disks.Stats(), rep.Disks
	d.Rows += int64(s.Rows)
	d.LiveBytes += s.LiveBytes
	d.LogBytes += s.DiskBytes
	d.FileBytes += s.FileBytes
	d.BufferBytes += s.Memory
	d.CompactedSegments += s.Compacted
	d.CompactedRows += s.CopiedRows
	d.DamagedRows += s.Damaged
	d.ReadErrors += s.ReadErrors
	d.WriteErrors += s.WriteErrors
	d.ReadBytes += uint64(s.ReadBytes)
	d.WrittenBytes += uint64(s.Written)
	d.AppendedBytes += uint64(s.Appended)
}
