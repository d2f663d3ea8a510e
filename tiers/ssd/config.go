package ssd

import (
	"fmt"
)

const (
	// NoSlot is no place in a log.
	NoSlot = ^uint32(0)
	// MaxSlots bounds the slots of a log: slots are below it.
	MaxSlots = 1 << 31
	// MaxNote bounds the note of a commit, in bytes.
	MaxNote = 2048
	// MaxRecordBytes bounds a record.
	MaxRecordBytes = 60 << 10
	// MaxLogs bounds the logs of a store.
	MaxLogs = 1 << 16
	// MaxDevices bounds the devices of a store.
	MaxDevices = 64
)

const (
	minSegment     = 256 << 10
	maxSegment     = 16 << 20
	defaultSegment = 1 << 20

	chunkBytes = 112 << 10 // a write buffer: records and their summaries
	unitBytes  = 8 << 10   // one read of rows
	writeUnit  = 4096      // file systems take writes of less one after the other

	minChunks     = 8
	defaultBuffer = 3 << 20
)

// Config is what a store may take. The zero value is a store without a limit.
type Config struct {
	// Limit is the most bytes on all devices together; 0 leaves it to the file
	// systems.
	Limit int64
	// Expected is how many bytes all rows will have. It is only compared with
	// the room there is.
	Expected int64
	// Scratch is a store that nobody reopens: nothing is synced, commits do
	// nothing, room comes back as soon as rows are dead, and Open empties it.
	Scratch bool
	// SegmentBytes is the unit in which room is taken and given back; 0 is 1 MiB, or
	// less where Limit or Expected are small. A store keeps what it was made with.
	SegmentBytes int
	// BufferBytes is the memory for writes and reads per device; 0 is 3 MiB.
	BufferBytes int
}

func (c Config) withDefaults(devices int) (Config, error) {
	if c.SegmentBytes == 0 {
		c.SegmentBytes = defaultSegment
		size := c.Limit
		if room := c.Expected * spaceHard / spaceUnit; room > 0 && (size == 0 || room < size) {
			size = room
		}
		for size > 0 && c.SegmentBytes > minSegment && size/int64(c.SegmentBytes) < int64(64*devices) {
			c.SegmentBytes /= 2
		}
	}
	if c.BufferBytes == 0 {
		c.BufferBytes = defaultBuffer
	}
	least := int64(devices)*segmentsAtLeast*int64(c.SegmentBytes) + c.overhead(devices, c.SegmentBytes)
	switch {
	case devices < 1 || devices > MaxDevices:
		return c, fmt.Errorf("ssd: %d devices, want 1 to %d", devices, MaxDevices)
	case c.SegmentBytes < minSegment || c.SegmentBytes > maxSegment || c.SegmentBytes%4096 != 0:
		return c, fmt.Errorf("ssd: segments of %d bytes, want a multiple of 4096 from %d to %d", c.SegmentBytes, minSegment, maxSegment)
	case c.BufferBytes < minChunks*chunkBytes*2:
		return c, fmt.Errorf("ssd: buffers of %d bytes a device, want at least %d", c.BufferBytes, minChunks*chunkBytes*2)
	case c.Limit < 0 || c.Expected < 0:
		return c, fmt.Errorf("ssd: a limit of %d bytes and %d expected, want 0 (none) or more", c.Limit, c.Expected)
	case c.Limit > 0 && c.Limit < least:
		return c, fmt.Errorf("ssd: a limit of %d bytes, but %d devices in segments of %d bytes need at least %d; raise the limit or give fewer devices", c.Limit, devices, c.SegmentBytes, least)
	}
	return c, nil
}

// manifestFile is the least size of a manifest file.
func (c *Config) manifestFile() int64 {
	if c.Limit == 0 {
		return maxManifestFile
	}
	return min(max(roundUp(c.Limit/64, manifestUnit), minManifestFile), maxManifestFile)
}

// overhead is what of the limit is not for segments: two manifests, and two more
// while they are replaced, and the identities.
func (c *Config) overhead(devices, segment int) int64 {
	entries := 4 * (manifestUnit + segmentEntry*c.Limit/int64(segment))
	return 4*max(c.manifestFile(), roundUp(entries, manifestUnit)) + int64(devices)*2*identityBytes
}

// segmentsAtLeast is per device: one being written, one being copied to, and
// two to copy from.
const segmentsAtLeast = 4

// Recovery is what Open found.
type Recovery struct {
	Commit   uint64 // the commit point that the store is at; 0 before any
	Note     []byte // that was given with it
	Logs     []LogInfo
	Warnings []string
}

// LogInfo is a log that a store holds.
type LogInfo struct {
	Name        string
	RecordBytes int
}

// LogConfig is one log's records and owner. The functions are called inside Log
// and Poll, and must not call the store.
type LogConfig struct {
	RecordBytes int
	// Expect is told, before Recover, how many records the commit point has at
	// most: rows, and what was overwritten since. nil: the owner does not ask.
	Expect func(records int)
	// Recover is told the records of the commit point, those of one page or less at
	// once, in an order in which the last one of a key counts; a key may come twice.
	// They lie in the slots from first on. It writes to old the slot that each key had
	// until its turn, or NoSlot; that one is dead from then on.
	Recover func(keys []uint64, first uint32, old []uint32) error
	// Gone is told that a key was deleted then, and returns the slot that it had, or
	// NoSlot.
	Gone func(key uint64) (old uint32)
	// Moved says that the live record in old lies in next now, too. True: the owner
	// uses next from now on. False: it does not use old any more, and neither next.
	Moved func(key uint64, old, next uint32) bool
	// Slot is the slot that the owner holds for key, or NoSlot.
	Slot func(key uint64) uint32
}

// Read asks for a row. Dst is lent until the row's ReadDone.
type Read struct {
	Key    uint64
	Slot   uint32
	AnyKey bool // the key is not known: ReadDone.Key tells it, for one more read a page
	ID     uint64
	Dst    []byte
}

// ReadDone ends a Read. With an Err, Dst is as it was.
type ReadDone struct {
	Log  *Log
	ID   uint64
	Key  uint64
	Slot uint32
	Err  error
}

// CommitDone ends all commits up to Number that had none. With an Err they may or
// may not be what a recovery finds.
type CommitDone struct {
	Number uint64
	Err    error
}

// Events is what has ended.
type Events struct {
	Reads   []ReadDone
	Commits []CommitDone
}
