package metrics

import "psrt/sched/psmsg"

// MaxTables bounds the tables with series of their own; the rest are added up.
const MaxTables = 32

// Tiers, as a label.
const (
	tierDevice = "device"
	tierMemory = "memory"
	tierDisk   = "disk"
)

var (
	tierRows    = gauge("psrt_tier_rows", "Rows of a table in a tier; those on a device are in memory or on disk, too.", "table", "tier")
	tierHits    = counter("psrt_tier_hits_total", "Keys that were looked up in a tier, and there or on their way.", "table", "tier")
	tierMisses  = counter("psrt_tier_misses_total", "Keys that were looked up in a tier in vain, and in the next one then.", "table", "tier")
	tierAhead   = counter("psrt_tier_ahead_rows_total", "Rows brought into a tier before they were looked up.", "table", "tier")
	tierEvicted = counter("psrt_tier_evicted_rows_total", "Rows that left a tier for others.", "table", "tier")
	tierReads   = counter("psrt_tier_read_rows_total", "Rows read from disks.", "table")
	tierWrites  = counter("psrt_tier_written_rows_total", "Rows that left memory for disks, changed.", "table")
	tierSync    = counter("psrt_tier_sync_reads_total", "Rows of these reads that a lookup had to wait for.", "table")
	deviceBytes = counter("psrt_tier_device_bytes_total", "Whole rows copied to the device and from it.", "table", "way")
	deviceLost  = gauge("psrt_tier_device_failed", "Parts of a table (one a lane) whose device has failed: memory has its place.", "table")
	deviceLack  = gauge("psrt_tier_device_unwritten", "Rows changed on the device that would be gone with it: neither in the tiers below nor in the journal.", "table")
	deviceTime  = counter("psrt_tier_device_work_seconds_total", "Time that the device was at copies to it, kernels, and copies from it.", "table", "work")
	deviceWait  = counter("psrt_tier_device_wait_seconds_total", "Time that lanes waited for the device.", "table")

	diskLog       = gauge("psrt_disk_log_bytes", "Segments of the log in use, live rows and dead.")
	diskLive      = gauge("psrt_disk_live_bytes", "Live rows of the log.")
	diskFiles     = gauge("psrt_disk_file_bytes", "All files of the log.")
	diskLimit     = gauge("psrt_disk_limit_bytes", "Bound of the log; absent without one.")
	diskCompacted = counter("psrt_disk_compacted_rows_total", "Live rows that compaction has copied.")
	diskSegments  = counter("psrt_disk_compacted_segments_total", "Segments that compaction has emptied.")
	diskRead      = counter("psrt_disk_read_bytes_total", "Bytes read from disks.")
	diskWritten   = counter("psrt_disk_written_bytes_total", "Bytes written to disks, of all kinds.")
	diskAppended  = counter("psrt_disk_appended_bytes_total", "Bytes of rows that left memory: written / appended is the write amplification.")
	diskErrors    = counter("psrt_disk_errors_total", "Reads and writes that failed, and records that were damaged.", "kind")
)

// bounded are tables by the label that they are shown with. named are those that
// have one of their own, for as long as the server lives: a sum must not lose a part.
func bounded(all []psmsg.TableStats, named map[string]bool) map[string]psmsg.TableStats {
	shown := make(map[string]psmsg.TableStats, min(len(all), MaxTables+1))
	for _, t := range all {
		name := t.Name
		if len(named) < MaxTables {
			named[name] = true
		}
		if !named[name] {
			name = other
		}
		sum := shown[name]
		sum.Name = name
		sum.Rows += t.Rows
		sum.Bytes += t.Bytes
		if t.Tiers != nil {
			if sum.Tiers == nil {
				sum.Tiers = &psmsg.TierStats{}
			}
			sum.Tiers.Add(t.Tiers)
		}
		shown[name] = sum
	}
	return shown
}

func (s sink) tables(shown map[string]psmsg.TableStats) {
	for name, t := range shown {
		s.put(serverRows, float64(t.Rows), name)
		s.put(serverMemory, float64(t.Bytes), name)
		if t.Tiers != nil {
			s.tiers(name, t.Rows, t.Tiers)
		}
	}
}

func (s sink) tiers(name string, rows int64, t *psmsg.TierStats) {
	if t.Device != "" {
		s.put(tierRows, float64(t.DeviceRows), name, tierDevice)
		s.put(tierHits, float64(t.DeviceHits), name, tierDevice)
		s.put(tierMisses, float64(t.DeviceMisses), name, tierDevice)
		s.put(tierAhead, float64(t.DeviceAhead), name, tierDevice)
		s.put(tierEvicted, float64(t.DeviceEvicted), name, tierDevice)
		s.put(deviceBytes, float64(t.DeviceBytesIn), name, "in")
		s.put(deviceBytes, float64(t.DeviceBytesOut), name, "out")
		s.put(deviceWait, t.DeviceWaited, name)
		s.put(deviceTime, t.DeviceCopiesIn, name, "copy_in")
		s.put(deviceTime, t.DeviceKernels, name, "kernel")
		s.put(deviceTime, t.DeviceCopiesOut, name, "copy_out")
		s.put(deviceLack, float64(t.DeviceUnwritten), name)
		s.put(deviceLost, float64(t.DeviceFailedParts), name)
	}
	s.put(tierRows, float64(t.RowsInMemory), name, tierMemory)
	s.put(tierRows, float64(rows-t.RowsInMemory), name, tierDisk)
	s.put(tierHits, float64(t.Hits), name, tierMemory)
	s.put(tierMisses, float64(t.Misses), name, tierMemory)
	s.put(tierAhead, float64(t.PrefetchedRows), name, tierMemory)
	s.put(tierEvicted, float64(t.Evicted), name, tierMemory)
	s.put(tierReads, float64(t.DiskReads), name)
	s.put(tierWrites, float64(t.DiskWrites), name)
	s.put(tierSync, float64(t.SyncReads), name)
}

func (s sink) disks(d *psmsg.DiskStats) {
	if d == nil {
		return
	}
	s.put(diskLog, float64(d.LogBytes))
	s.put(diskLive, float64(d.LiveBytes))
	s.put(diskFiles, float64(d.FileBytes))
	if d.LimitBytes > 0 {
		s.put(diskLimit, float64(d.LimitBytes))
	}
	s.put(diskCompacted, float64(d.CompactedRows))
	s.put(diskSegments, float64(d.CompactedSegments))
	s.put(diskRead, float64(d.ReadBytes))
	s.put(diskWritten, float64(d.WrittenBytes))
	s.put(diskAppended, float64(d.AppendedBytes))
	for kind, n := range map[string]uint64{"read": d.ReadErrors, "write": d.WriteErrors, "damaged": d.DamagedRows} {
		s.put(diskErrors, float64(n), kind)
	}
}
