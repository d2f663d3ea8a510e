package hbm

import (
	"fmt"

	"psrt/csrc/probe"
	"psrt/tiers"
	"psrt/tiers/policy"
	"psrt/tiers/table"
)

// Below is the tier whose rows are cached: tiers.Memory, tracked, or tiers.Tiered.
type Below interface {
	tiers.Rows
	// Copy copies whole pinned rows and marks nothing.
	Copy(rows []uint32, dst []float32)
	// Put sets rows that there are, from the front, as far as that takes no waiting:
	// tiers.ErrBusy and tiers.ErrPinned want Poll before the next.
	Put(keys []uint64, rows []float32) (put int, err error)
}

// Config says what a Cache may take.
type Config struct {
	Device Device
	// MaxBytes is the hard bound of the device's memory. HostBytes says what is
	// taken of the host's beside it.
	MaxBytes int64
	// BatchRows bounds the rows of one batch; two must fit beside each other. 0 is
	// 1024.
	BatchRows int
	// Policy is policy.NameBelady (also ""), NameS3FIFO or NameLRU.
	Policy string
	// Window bounds the announced batches that are remembered, 0 is 8; Ahead is how
	// many of them are copied in before they are looked up, 0 is 1.
	Window, Ahead int
	// Node is the NUMA node of what is known of each row, -1 for any.
	Node int
	// Journal is how many bytes of the host's memory what is done to rows on the device is
	// written down in, until the tier below has them, beside 4 bytes a row there: a device that fails then loses
	// none, and the host's memory takes its place. 0: none is kept, and the failure of the
	// device is the end of the table.
	Journal int64
	// Lost is told when the host's memory has taken the place of a device, how that has failed, and
	// of how many rows the tier below did not have what was there; may be nil.
	Lost func(rows int, err error)
	// Gap is told each time that rows begin to be changed on the device without being written down, and how many
	// are: until the tier below has them the failure of the device would be the end of the table; may be nil.
	Gap func(rows int)
	// Wake is called when Poll should be, beside what the tier below asks for. nil:
	// the caller polls without being told.
	Wake func()
}

func (c Config) withDefaults() Config {
	if c.BatchRows == 0 {
		c.BatchRows = 1024
	}
	if c.Window == 0 {
		c.Window = 8
	}
	if c.Ahead == 0 {
		c.Ahead = 1
	}
	c.Ahead = min(c.Ahead, c.Window)
	if c.Policy == "" {
		c.Policy = policy.NameBelady
	}
	return c
}

// indexNotes is what an index takes for each bucket beside, to know what has changed.
const indexNotes = 5

// slotBytes is what is known of a slot: key, pins and flags; and a device's marks.
const slotBytes = 8 + 4 + 1 + 12

// indexBytes is the memory of an index of so many rows.
func indexBytes(rows int) int { return probe.BoundedBuckets(rows) * probe.BucketBytes }

// BufferBytes is one of the buffers of the host, on the way from and to the device.
const BufferBytes = 1 << 20

const buffers = 2

// A device has a stagingPart-th of its memory, of the host's, for batches on their way, and room for so many
// rows at least.
const (
	stagingPart  = 8
	leastStaging = 128
)

func bufferRows(spec table.Spec) int { return max(1, BufferBytes/spec.RowBytes()) }

// slots is how many rows there is room for.
func (c *Config) slots(spec table.Spec) (int, error) {
	n := c.Device.Slots(&spec, c.MaxBytes, c.BatchRows)
	if n < 2*c.BatchRows {
		return 0, fmt.Errorf("%w: table %q with rows of %d bytes: %d bytes of the device cannot hold two batches of %d rows; %d are the least for the rows alone, give it more with --hbm-budget",
			tiers.ErrBudget, spec.Name, spec.RowBytes(), c.MaxBytes, c.BatchRows, 2*c.BatchRows*spec.RowBytes())
	}
	return n, nil
}

// HostBytes is what a Cache takes of the host's memory, beside the tier below and
// a device that is the host's twin.
func HostBytes(spec table.Spec, cfg Config) int64 {
	cfg = cfg.withDefaults()
	n := cfg.MaxBytes / int64(spec.RowBytes())
	uses := int64(0)
	if cfg.Policy == policy.NameBelady {
		uses = int64(cfg.Window*cfg.BatchRows) * policy.UseBytes
	}
	if cfg.Journal > 0 {
		cfg.Journal += noteBytes * n
	}
	staging := cfg.MaxBytes/stagingPart + leastStaging*int64(spec.RowBytes()+64)
	return staging + n*(slotBytes+policy.FrameBytes) + int64(indexBytes(int(n))+indexNotes*probe.BoundedBuckets(int(n))) + uses + cfg.Journal + int64(buffers*bufferRows(spec)*spec.RowBytes())
}
