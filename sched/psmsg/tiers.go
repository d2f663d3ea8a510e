package psmsg

import (
	"cmp"
	"slices"
	"strings"
)

// TierStats is what became of one table's rows on a device, in memory and on disks.
type TierStats struct {
	RowsInMemory   int64  `json:"rows_in_memory"`
	Hits           uint64 `json:"hits"` // keys of lookups whose row was in memory, or on its way
	Misses         uint64 `json:"misses"`
	DiskReads      uint64 `json:"disk_reads"` // rows
	DiskWrites     uint64 `json:"disk_writes"`
	SyncReads      uint64 `json:"sync_reads"` // that a lookup had to wait for
	Evicted        uint64 `json:"evicted"`
	PrefetchedRows uint64 `json:"prefetched_rows"`
	DiskBytes      int64  `json:"disk_bytes"` // of the log that the tables of a lane share

	// Device is what holds the rows of coming batches, "" where nothing does; several behind
	// deviceAnd. Hits
	// and Misses are then of what the device did not have.
	Device        string `json:"device,omitempty"`
	DeviceRows    int64  `json:"device_rows,omitempty"`
	DeviceBytes   int64  `json:"device_bytes,omitempty"`
	DeviceHits    uint64 `json:"device_hits,omitempty"`
	DeviceMisses  uint64 `json:"device_misses,omitempty"`
	DeviceEvicted uint64 `json:"device_evicted,omitempty"`
	DeviceAhead   uint64 `json:"device_ahead,omitempty"`    // rows copied there before they were looked up
	DevicePutBack uint64 `json:"device_put_back,omitempty"` // rows changed there
	// Whole rows copied to the device and from it, and how long lanes waited for it.
	DeviceBytesIn  uint64  `json:"device_bytes_in,omitempty"`
	DeviceBytesOut uint64  `json:"device_bytes_out,omitempty"`
	DeviceWaited   float64 `json:"device_waited_seconds,omitempty"`
	// What its copies, of rows, gradients, keys and values, and its kernels took, as it tells.
	DeviceCopiesIn  float64 `json:"device_copy_in_seconds,omitempty"`
	DeviceKernels   float64 `json:"device_kernel_seconds,omitempty"`
	DeviceCopiesOut float64 `json:"device_copy_out_seconds,omitempty"`
	// DeviceUnwritten are rows that were changed there and would be gone with it.
	DeviceUnwritten int64 `json:"device_unwritten,omitempty"`
	// DeviceFailed is a device that had rows, and how it failed; DeviceFailedParts are parts of tables
	// whose rows memory has had since.
	DeviceFailed      string `json:"device_failed,omitempty"`
	DeviceFailedParts int64  `json:"device_failed_parts,omitempty"`
}

// Add adds another part of the same table, or of others.
func (t *TierStats) Add(o *TierStats) {
	t.RowsInMemory += o.RowsInMemory
	t.Hits += o.Hits
	t.Misses += o.Misses
	t.DiskReads += o.DiskReads
	t.DiskWrites += o.DiskWrites
	t.SyncReads += o.SyncReads
	t.Evicted += o.Evicted
	t.PrefetchedRows += o.PrefetchedRows
	t.DiskBytes = max(t.DiskBytes, o.DiskBytes)
	t.OnDevice(o.Device)
	t.DeviceRows += o.DeviceRows
	t.DeviceBytes += o.DeviceBytes
	t.DeviceHits += o.DeviceHits
	t.DeviceMisses += o.DeviceMisses
	t.DeviceEvicted += o.DeviceEvicted
	t.DeviceAhead += o.DeviceAhead
	t.DevicePutBack += o.DevicePutBack
	t.DeviceBytesIn += o.DeviceBytesIn
	t.DeviceBytesOut += o.DeviceBytesOut
	t.DeviceWaited += o.DeviceWaited
	t.DeviceCopiesIn += o.DeviceCopiesIn
	t.DeviceKernels += o.DeviceKernels
	t.DeviceCopiesOut += o.DeviceCopiesOut
	t.DeviceUnwritten += o.DeviceUnwritten
	t.DeviceFailed = cmp.Or(t.DeviceFailed, o.DeviceFailed)
	t.DeviceFailedParts += o.DeviceFailedParts
}

// deviceAnd is between the names of devices.
const deviceAnd = " and "

// OnDevice adds a device, or several, to those that hold rows.
func (t *TierStats) OnDevice(names string) {
	var known []string
	if t.Device != "" {
		known = strings.Split(t.Device, deviceAnd)
	}
	for name := range strings.SplitSeq(names, deviceAnd) {
		if name != "" && !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	t.Device = strings.Join(known, deviceAnd)
}

// DiskStats is what the disks of a server hold and have done, for all its tables.
type DiskStats struct {
	LimitBytes        int64  `json:"limit_bytes,omitempty"` // 0: what there is
	Rows              int64  `json:"rows"`
	LiveBytes         int64  `json:"live_bytes"` // of rows
	LogBytes          int64  `json:"log_bytes"`  // of segments in use, live or dead
	FileBytes         int64  `json:"file_bytes"`
	BufferBytes       int64  `json:"buffer_bytes"` // of memory
	CompactedSegments uint64 `json:"compacted_segments"`
	CompactedRows     uint64 `json:"compacted_rows"`
	DamagedRows       uint64 `json:"damaged_rows"` // met, and refused
	ReadErrors        uint64 `json:"read_errors"`
	WriteErrors       uint64 `json:"write_errors"`
	ReadBytes         uint64 `json:"read_bytes"`
	WrittenBytes      uint64 `json:"written_bytes"`
	AppendedBytes     uint64 `json:"appended_bytes"` // of these, rows that left memory
}
