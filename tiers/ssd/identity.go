package ssd

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"psrt/tiers/blk"
)

const (
	identityName  = "store"
	identityMagic = 0x31495350 // "PSI1"
	identityBytes = 4096       // twice in the file
	version       = 1
)

// identity says which device of which store a directory is.
//
//	0 magic u32 | 4 sum u32 | 8 version u16 | 10 flags u16 (1: scratch) | 12 store 16 bytes
//	28 index u32 | 32 count u32 | 36 block u32 | 40 segment u32 | zeros
//
// The sum is CRC-32C of all bytes behind it. The file holds it twice.
type identity struct {
	scratch        bool
	id             [16]byte
	index, count   int
	block, segment int
}

func (x *identity) put(b []byte) {
	clear(b[:identityBytes])
	le.PutUint32(b, identityMagic)
	le.PutUint16(b[8:], version)
	if x.scratch {
		le.PutUint16(b[10:], 1)
	}
	copy(b[12:], x.id[:])
	le.PutUint32(b[28:], uint32(x.index))
	le.PutUint32(b[32:], uint32(x.count))
	le.PutUint32(b[36:], uint32(x.block))
	le.PutUint32(b[40:], uint32(x.segment))
	le.PutUint32(b[4:], crc32.Checksum(b[8:identityBytes], castagnoli))
}

// get reads one copy; why is not empty if it is none.
func (x *identity) get(b []byte) (why string) {
	if len(b) < identityBytes || le.Uint32(b) != identityMagic {
		return "it does not begin as one"
	}
	if le.Uint32(b[4:]) != crc32.Checksum(b[8:identityBytes], castagnoli) {
		return "its sum is wrong"
	}
	if v := le.Uint16(b[8:]); v != version {
		return fmt.Sprintf("it has version %d, this program reads %d", v, version)
	}
	x.scratch = le.Uint16(b[10:])&1 != 0
	copy(x.id[:], b[12:])
	x.index, x.count = int(le.Uint32(b[28:])), int(le.Uint32(b[32:]))
	x.block, x.segment = int(le.Uint32(b[36:])), int(le.Uint32(b[40:]))
	if x.count < 1 || x.count > MaxDevices || x.index >= x.count || (x.block != 512 && x.block != 4096) ||
		x.segment < minSegment || x.segment > maxSegment || x.segment%4096 != 0 {
		return "its numbers make no sense"
	}
	return ""
}

// identify puts the disks in the store's order. It returns true if there is no
// store yet; then it has made one.
func (s *Store) identify() (fresh bool, err error) {
	found := make([]*identity, len(s.disks))
	broken := make([]error, len(s.disks))
	var one *identity
	manifests, data, lasting := 0, 0, 0
	for i, d := range s.disks {
		names, err := d.dev.List()
		if err != nil {
			return false, fmt.Errorf("ssd: %v: %w", d.dev, err)
		}
		for _, name := range names {
			if _, _, ok := parseManifest(name); ok {
				manifests++
			}
			if _, _, ok := parseExtent(name); ok {
				data++
			}
		}
		if !slices.Contains(names, identityName) {
			continue
		}
		x, err := s.readIdentity(d)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return false, err
		}
		if broken[i] = err; err != nil {
			continue
		}
		found[i], one = x, x
		if !x.scratch {
			lasting++
		}
		if x.count != len(s.disks) {
			return false, fmt.Errorf("%w: %v is number %d of %d, but %d directories were given; give all of them", ErrStore, d.dev, x.index+1, x.count, len(s.disks))
		}
	}
	switch {
	case manifests == 0 && data == 0:
		// The manifest comes after all identities, data after it: making a store
		// was cut short at most.
		return true, s.create()
	case one == nil:
		return false, errors.Join(append(broken, fmt.Errorf("%w: there are a store's files, but no file %q; put it back, or begin with empty directories", ErrStore, identityName))...)
	case lasting == 0 && s.cfg.Scratch:
		return true, s.create()
	case s.cfg.Scratch:
		return false, fmt.Errorf("%w: %v holds a store that is to last, and was opened as scratch; give an empty directory", ErrStore, s.disks[0].dev)
	case one.scratch:
		return false, fmt.Errorf("%w: %v holds a scratch store, of which nothing can be recovered; give an empty directory", ErrStore, s.disks[0].dev)
	}
	if err := errors.Join(broken...); err != nil {
		return false, err
	}
	return false, s.arrange(found, one)
}

// arrange checks that the disks are all those of one store.
func (s *Store) arrange(found []*identity, one *identity) error {
	order := make([]*disk, one.count)
	for i, d := range s.disks {
		x := found[i]
		switch {
		case x == nil:
			return fmt.Errorf("%w: %v holds no store, another directory does; give the %d directories that the store was made with", ErrStore, d.dev, one.count)
		case x.id != one.id:
			return fmt.Errorf("%w: %v belongs to store %x, another directory to %x; give the directories of one store", ErrStore, d.dev, x.id, one.id)
		case order[x.index] != nil:
			return fmt.Errorf("%w: %v and %v both say that they are number %d of %d; one is a copy", ErrStore, d.dev, order[x.index].dev, x.index+1, x.count)
		case x.block != one.block || x.segment != one.segment:
			return fmt.Errorf("%w: %v and another directory differ in the sizes of blocks or segments", ErrStore, d.dev)
		case x.block < s.block:
			return fmt.Errorf("%w: the store was made in blocks of %d bytes, %v takes only %d; copy the directory to a disk like the one before", ErrStore, x.block, d.dev, d.dev.Block())
		}
		order[x.index] = d
	}
	for i, d := range order {
		d.index = i
	}
	s.disks = order
	s.id, s.block, s.segmentBytes = one.id, one.block, one.segment
	return nil
}

func (s *Store) readIdentity(d *disk) (*identity, error) {
	file, size, err := d.dev.Open(identityName)
	if err != nil {
		return nil, fmt.Errorf("ssd: %v: %w", d.dev, err)
	}
	buf := d.takeChunk(0)
	defer d.giveChunk(buf)
	b := buf[:min(size, 2*identityBytes)]
	if _, err = s.do(d, blk.Request{Op: blk.Read, File: file, Buf: b}); err == nil {
		err = d.dev.CloseFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("ssd: %v: %w", d.dev, err)
	}
	var x identity
	why := x.get(b)
	if why != "" && len(b) == 2*identityBytes {
		why = x.get(b[identityBytes:])
	}
	if why != "" {
		return nil, &CorruptError{d.dev.String(), identityName, 0, why}
	}
	return &x, nil
}

// create makes a new store of directories that hold none, or a scratch one.
func (s *Store) create() error {
	var err error
	if s.id, err = newID(); err != nil {
		return fmt.Errorf("ssd: %w", err)
	}
	s.segmentBytes = s.cfg.SegmentBytes
	for i, d := range s.disks {
		names, err := d.dev.List()
		if err != nil {
			return fmt.Errorf("ssd: %v: %w", d.dev, err)
		}
		for _, name := range names {
			_, _, man := parseManifest(name)
			_, _, data := parseExtent(name)
			if man || data || name == identityName {
				if err := d.dev.Remove(name); err != nil {
					return fmt.Errorf("ssd: %v: %w", d.dev, err)
				}
			}
		}
		x := identity{s.cfg.Scratch, s.id, i, len(s.disks), s.block, s.segmentBytes}
		if err := s.writeIdentity(d, &x); err != nil {
			return fmt.Errorf("ssd: %v: %w", d.dev, err)
		}
	}
	return nil
}

func (s *Store) writeIdentity(d *disk, x *identity) error {
	file, err := d.dev.Create(identityName, 2*identityBytes)
	if err != nil {
		return err
	}
	buf := d.takeChunk(0)
	defer d.giveChunk(buf)
	x.put(buf)
	x.put(buf[identityBytes:])
	if _, err = s.do(d, blk.Request{Op: blk.Write, File: file, Buf: buf[:2*identityBytes]}); err != nil {
		return err
	}
	if _, err = s.do(d, blk.Request{Op: blk.Sync, File: file}); err != nil {
		return err
	}
	return d.dev.CloseFile(file)
}
