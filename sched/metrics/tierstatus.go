package metrics

// TierStatus is where a server's rows lie, and what moves between there. Rates are
// a second's; hit rates are those between the looks, and without a lookup between
// them those of all time.
type TierStatus struct {
	DeviceRows      float64 `json:"device_rows,omitempty"`
	MemoryRows      float64 `json:"memory_rows"`
	DiskRows        float64 `json:"disk_rows"`
	DeviceHitRate   float64 `json:"device_hit_rate,omitempty"`
	DeviceFailed    float64 `json:"device_failed,omitempty"` // parts of tables that memory has since
	MemoryHitRate   float64 `json:"memory_hit_rate"`         // of what the device did not have
	ReadRowsPerS    float64 `json:"read_rows_per_s"`
	WrittenRowsPerS float64 `json:"written_rows_per_s"`
	SyncReads       float64 `json:"sync_reads"`
	SyncReadsPerS   float64 `json:"sync_reads_per_s"`
	AheadRowsPerS   float64 `json:"ahead_rows_per_s"`
	EvictedPerS     float64 `json:"evicted_rows_per_s"`
	LogBytes        float64 `json:"log_bytes"`
	LiveBytes       float64 `json:"live_bytes"`
	LimitBytes      float64 `json:"limit_bytes,omitempty"`
	CompactedPerS   float64 `json:"compacted_rows_per_s"`
	ReadPerS        float64 `json:"read_bytes_per_s"`
	WrittenPerS     float64 `json:"written_bytes_per_s"`
	Errors          float64 `json:"disk_errors"`
}

// tiers is nil where all rows are in memory.
func (b *between) tiers(rank string) *TierStatus {
	now := func(name, tier string) float64 { return b.after.sum(name, rank, "", tier) }
	rate := func(name, tier string) float64 { return b.rate(name, rank, "", tier) }
	if now("psrt_tier_rows", "") == 0 && now("psrt_tier_misses_total", "") == 0 {
		return nil
	}
	return &TierStatus{DeviceRows: now("psrt_tier_rows", tierDevice), MemoryRows: now("psrt_tier_rows", tierMemory), DiskRows: now("psrt_tier_rows", tierDisk),
		DeviceFailed:  now("psrt_tier_device_failed", ""),
		DeviceHitRate: b.hitRate(rank, tierDevice), MemoryHitRate: b.hitRate(rank, tierMemory),
		ReadRowsPerS: rate("psrt_tier_read_rows_total", ""), WrittenRowsPerS: rate("psrt_tier_written_rows_total", ""),
		SyncReads: now("psrt_tier_sync_reads_total", ""), SyncReadsPerS: rate("psrt_tier_sync_reads_total", ""),
		AheadRowsPerS: rate("psrt_tier_ahead_rows_total", ""), EvictedPerS: rate("psrt_tier_evicted_rows_total", tierMemory),
		LogBytes: now("psrt_disk_log_bytes", ""), LiveBytes: now("psrt_disk_live_bytes", ""), LimitBytes: now("psrt_disk_limit_bytes", ""),
		CompactedPerS: rate("psrt_disk_compacted_rows_total", ""), ReadPerS: rate("psrt_disk_read_bytes_total", ""),
		WrittenPerS: rate("psrt_disk_written_bytes_total", ""), Errors: now("psrt_disk_errors_total", "")}
}

func (b *between) hitRate(rank, tier string) float64 {
	const hits, misses = "psrt_tier_hits_total", "psrt_tier_misses_total"
	in, out := b.rate(hits, rank, "", tier), b.rate(misses, rank, "", tier)
	if in+out == 0 {
		in, out = b.after.sum(hits, rank, "", tier), b.after.sum(misses, rank, "", tier)
	}
	if in+out == 0 {
		return 0
	}
	return in / (in + out)
}
