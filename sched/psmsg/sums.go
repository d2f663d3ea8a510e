package psmsg

// Add adds another part of the same disks, or others.
func (d *DiskStats) Add(o *DiskStats) {
	d.LimitBytes += o.LimitBytes
	d.Rows += o.Rows
	d.LiveBytes += o.LiveBytes
	d.LogBytes += o.LogBytes
	d.FileBytes += o.FileBytes
	d.BufferBytes += o.BufferBytes
	d.CompactedSegments += o.CompactedSegments
	d.CompactedRows += o.CompactedRows
	d.DamagedRows += o.DamagedRows
	d.ReadErrors += o.ReadErrors
	d.WriteErrors += o.WriteErrors
	d.ReadBytes += o.ReadBytes
	d.WrittenBytes += o.WrittenBytes
	d.AppendedBytes += o.AppendedBytes
}

// Add adds another part of the same table.
func (t *TableStats) Add(o *TableStats) {
	t.Rows += o.Rows
	t.Bytes += o.Bytes
	if o.Tiers != nil {
		if t.Tiers == nil {
			t.Tiers = &TierStats{}
		}
		t.Tiers.Add(o.Tiers)
	}
	if o.Ahead != nil {
		if t.Ahead == nil {
			t.Ahead = &AheadStats{}
		}
		t.Ahead.Add(o.Ahead)
	}
	if o.Life != nil {
		if t.Life == nil {
			t.Life = &LifeStats{}
		}
		t.Life.Add(o.Life)
	}
}

// Add adds what another policy grants over the same device: each looks after its
// own part of the link.
func (f *FanInStats) Add(o *FanInStats) {
	f.BytesPerSecond = max(f.BytesPerSecond, o.BytesPerSecond)
	f.RTTNanos = max(f.RTTNanos, o.RTTNanos)
	f.ChunkBytes = max(f.ChunkBytes, o.ChunkBytes)
	f.WindowBytes += o.WindowBytes
	f.OutstandingBytes += o.OutstandingBytes
	f.WaitingSessions += o.WaitingSessions
	f.Grants += o.Grants
	f.GrantedBytes += o.GrantedBytes
	f.LandedBytes += o.LandedBytes
	f.Late += o.Late
	f.SetAside += o.SetAside
	f.First += o.First
	f.Passed += o.Passed
}

// Add adds another part of the same table.
func (a *AheadStats) Add(o *AheadStats) {
	a.AnnouncedRows += o.AnnouncedRows
	a.UnheededRows += o.UnheededRows
	a.SyncReads += o.SyncReads
	a.SteadySyncReads += o.SteadySyncReads
	a.ScoreReads += o.ScoreReads
}
