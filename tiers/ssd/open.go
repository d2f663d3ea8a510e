package ssd

import (
	"crypto/rand"
	"errors"
	"fmt"

	"psrt/tiers/blk"
)

// Open makes the devices, in any order, one store, or finds the one that is on
// them at its last commit point. The devices are the store's from then on; if
// Open fails they are closed.
func Open(devs []blk.Device, cfg Config) (*Store, Recovery, error) {
	s, rec, err := open(devs, cfg)
	if err != nil {
		for _, d := range devs {
			err = errors.Join(err, d.Close())
		}
		return nil, Recovery{}, err
	}
	return s, rec, nil
}

func open(devs []blk.Device, cfg Config) (*Store, Recovery, error) {
	var rec Recovery
	cfg, err := cfg.withDefaults(len(devs))
	if err != nil {
		return nil, rec, err
	}
	s := &Store{cfg: cfg, growAgain: growAgain, wake: make(chan struct{}, 1), logs: map[uint32]*Log{}, byName: map[string]uint32{}, known: map[uint32]logEntry{}}
	for i, dev := range devs {
		d, err := newDisk(s, i, dev, cfg.BufferBytes)
		if err != nil {
			return nil, rec, err
		}
		s.disks = append(s.disks, d)
		s.block = max(s.block, dev.Block())
		dev.OnResult(s.signal)
	}
	fresh, err := s.identify()
	if err != nil {
		return nil, rec, err
	}
	s.id64 = le.Uint64(s.id[:])
	s.commits.next = 1
	s.limitSegments = 1 << 30
	if cfg.Limit > 0 {
		s.limitSegments = int(max(0, cfg.Limit-cfg.overhead(len(devs), s.segmentBytes)) / int64(s.segmentBytes))
	}
	if !fresh {
		if err := s.recover(&rec); err != nil {
			return nil, rec, err
		}
	}
	s.planned = s.total
	s.warn(&rec)
	if !cfg.Scratch {
		if err := s.firstManifest(); err != nil {
			return nil, rec, err
		}
	}
	for _, d := range s.disks {
		if d.total == 0 {
			d.grow()
		}
	}
	return s, rec, s.until(func() bool {
		for _, d := range s.disks {
			if d.making {
				return false
			}
		}
		return true
	})
}

// newID is a store's: devices of two stores never mix.
func newID() (id [16]byte, err error) {
	_, err = rand.Read(id[:])
	return id, err
}

// recover finds manifest and data files, and which segments are free.
func (s *Store) recover(rec *Recovery) error {
	if err := s.openExtents(); err != nil {
		return err
	}
	for _, d := range s.disks {
		for _, e := range d.extents {
			s.nextExtent = max(s.nextExtent, e.first+uint32(e.count))
		}
	}
	if err := s.readManifest(rec); err != nil {
		return err
	}
	for i := range s.segs {
		g := &s.segs[i]
		switch {
		case g.log != noLog && g.ext == nil:
			return fmt.Errorf("%w: the manifest has rows in segment %d, which is in no data file; a data file has been removed: put it back, or begin with empty directories", ErrStore, i)
		case g.log != noLog:
			s.used++
		case g.ext != nil:
			g.ext.d.free = append(g.ext.d.free, uint32(i))
		}
	}
	s.sealedCount = s.used
	for _, u := range s.unmade {
		if err := u.d.dev.Remove(u.name); err != nil {
			return fmt.Errorf("ssd: %v: %w", u.d.dev, err)
		}
	}
	s.unmade = nil
	return nil
}

// warn compares the room there is with what will be needed.
func (s *Store) warn(rec *Recovery) {
	var free, had int64
	for _, d := range s.disks {
		f, _, err := d.dev.Space()
		if err != nil {
			return
		}
		free += f
		had += int64(d.total) * int64(s.segmentBytes)
	}
	room := free + had
	if s.cfg.Limit > 0 {
		room = min(room, s.cfg.Limit)
	}
	if room < 2*s.cfg.Expected {
		rec.Warnings = append(rec.Warnings, fmt.Sprintf(
			"the directories of the SSD tier have room for %d bytes (%d free, %d already in its files, limit %d); the rows will have about %d, and twice that is wanted: give more room, or expect slower writes and an error when it is full",
			room, free, had, s.cfg.Limit, s.cfg.Expected))
	}
}
