package metrics

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"psrt/sched/psmsg"
)

// manyTables is a server with tables in all tiers.
func manyTables(n int) *fakeServer {
	f := &fakeServer{stats: psmsg.StatsReply{Disks: &psmsg.DiskStats{LimitBytes: 1000, LogBytes: 700, LiveBytes: 500, CompactedRows: 4, ReadErrors: 1, DamagedRows: 2}}}
	for i := range n {
		f.stats.Tables = append(f.stats.Tables, psmsg.TableStats{Name: fmt.Sprintf("t%d", i), Rows: 10, Bytes: 20, Tiers: &psmsg.TierStats{
			RowsInMemory: 4, Hits: 30, Misses: 10, DiskReads: 9, DiskWrites: 8, SyncReads: 2, Evicted: 6, PrefetchedRows: 7,
			Device: "a twin", DeviceRows: 3, DeviceHits: 60, DeviceMisses: 40, DeviceEvicted: 5, DeviceAhead: 11, DeviceBytesIn: 100, DeviceBytesOut: 10, DeviceUnwritten: 12}})
	}
	return f
}

// However many tables there are, and however they come, the series are bounded and
// no sum loses a part.
func TestTablesAreBounded(t *testing.T) {
	const tables = 1000
	f := manyTables(tables)
	r := NewRank()
	r.Name("server 0")
	r.Server(f)
	all := f.stats.Tables
	for _, shown := range [][]psmsg.TableStats{all[500:520], all} { // the others come before these
		f.stats.Tables = shown
		got, err := r.Gatherer().Gather()
		if err != nil {
			t.Fatal(err)
		}
		n := float64(len(shown))
		labels := min(len(shown), MaxTables+1)
		for name, want := range map[string]struct {
			series int
			sum    float64
		}{
			"psrt_server_rows":               {labels, 10 * n},
			"psrt_server_table_bytes":        {labels, 20 * n},
			"psrt_tier_rows":                 {3 * labels, (3 + 4 + 6) * n},
			"psrt_tier_hits_total":           {2 * labels, 90 * n},
			"psrt_tier_misses_total":         {2 * labels, 50 * n},
			"psrt_tier_ahead_rows_total":     {2 * labels, 18 * n},
			"psrt_tier_evicted_rows_total":   {2 * labels, 11 * n},
			"psrt_tier_device_bytes_total":   {2 * labels, 110 * n},
			"psrt_tier_device_unwritten":     {labels, 12 * n},
			"psrt_tier_read_rows_total":      {labels, 9 * n},
			"psrt_tier_written_rows_total":   {labels, 8 * n},
			"psrt_tier_sync_reads_total":     {labels, 2 * n},
			"psrt_disk_limit_bytes":          {1, 1000},
			"psrt_disk_errors_total":         {3, 3},
			"psrt_disk_compacted_rows_total": {1, 4},
		} {
			if ms := gathered(t, got, name); len(ms) != want.series || total(ms) != want.sum {
				t.Errorf("%d tables: %s: %d series, sum %v; want %d, %v", len(shown), name, len(ms), total(ms), want.series, want.sum)
			}
		}
		for _, m := range gathered(t, got, "psrt_server_rows") {
			for _, l := range m.Label {
				if l.GetName() == "table" && l.GetValue() == "t510" && m.Gauge.GetValue() != 10 {
					t.Errorf("table t510 has %v rows of its own", m.Gauge.GetValue())
				}
			}
		}
	}
}

// What moves between the tiers between two looks.
func TestTiersBetween(t *testing.T) {
	f, socket := manyTables(2), filepath.Join(t.TempDir(), "s")
	r := NewRank()
	r.Name("server 0")
	r.Server(f)
	defer serve(t, "unix:"+socket, r).Close()
	before := Look(context.Background(), []string{socket})
	for range 2 {
		x := f.stats.Tables[1].Tiers
		x.Hits, x.Misses, x.DeviceHits, x.DiskReads, x.SyncReads = x.Hits+45, x.Misses+5, x.DeviceHits+10, x.DiskReads+100, x.SyncReads+1
		f.stats.Disks.CompactedRows += 6
	}
	after := Look(context.Background(), []string{socket})
	after.at = before.at.Add(2 * time.Second)
	got := Between(before, after).Servers[0].Tiers
	want := TierStatus{DeviceRows: 6, MemoryRows: 8, DiskRows: 12, DeviceHitRate: 1, MemoryHitRate: 0.9, ReadRowsPerS: 100,
		SyncReads: 6, SyncReadsPerS: 1, LogBytes: 700, LiveBytes: 500, LimitBytes: 1000, CompactedPerS: 6, Errors: 3}
	if got == nil || *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	still := Between(after, after).Servers[0].Tiers
	if still == nil || still.MemoryHitRate != 150.0/180 || still.ReadRowsPerS != 0 {
		t.Errorf("at rest %+v", still)
	}
}

// A server whose rows are all in memory has no tiers to tell of.
func TestNoTiers(t *testing.T) {
	f, socket := crowded(1, 1), filepath.Join(t.TempDir(), "s")
	r := NewRank()
	r.Name("server 0")
	r.Server(f)
	defer serve(t, "unix:"+socket, r).Close()
	look := Look(context.Background(), []string{socket})
	if s := Between(look, look).Servers[0]; s.Tiers != nil || s.Rows != 7 {
		t.Errorf("%+v, %+v", s, s.Tiers)
	}
}
