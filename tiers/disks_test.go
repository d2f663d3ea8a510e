package tiers_test

import (
	"math/rand/v2"
	"testing"

	"psrt/tiers"
	"psrt/tiers/blk"
	"psrt/tiers/table"
	"psrt/tiers/tierstest"
	"psrt/tiers/tierstest/rowstest"
)

func openDisks(t *testing.T, cfg tiers.DisksConfig) *tiers.Disks {
	d, err := tiers.OpenDisks(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func tieredOn(t *testing.T, d *tiers.Disks, spec table.Spec, seed uint64) *tiers.Tiered {
	c := tiers.Config{Disks: d, Node: -1, BatchRows: 48, MaxBytes: 1}
	c.MaxBytes = tiers.Least(spec, c)*5/4 + 30000
	m, err := tiers.NewTiered(spec, seed, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTieredOnDisks is the walk over files, on two devices.
func TestTieredOnDisks(t *testing.T) {
	for _, engine := range []string{"", blk.EnginePread} {
		t.Run("engine="+engine, func(t *testing.T) {
			cfg := rowstest.Config{Steps: 150, Batch: 40}
			rowstest.Run(t, cfg, func(t *testing.T, r *rand.Rand, spec table.Spec, seed uint64) tiers.Rows {
				d := openDisks(t, tiers.DisksConfig{Dirs: []string{t.TempDir(), t.TempDir()}, Engine: engine})
				return close1(t, tieredOn(t, d, spec, seed))
			})
		})
	}
}

// TestKept: what was flushed and committed is there when the disks are opened
// again, and nothing later.
func TestKept(t *testing.T) {
	spec := tierstest.Specs()[1]
	dir := t.TempDir()
	fill := func(m *tiers.Tiered, keys []uint64) {
		for len(keys) > 0 {
			n := min(len(keys), 40)
			l := &tiers.Lookup{Keys: keys[:n], Rows: make([]uint32, n), Create: true}
			for done := m.Start(l); !done; done = len(m.Poll()) > 0 {
			}
			if l.Err != nil {
				t.Fatal(l.Err)
			}
			m.Release(l.Rows)
			keys = keys[n:]
		}
	}
	keys := make([]uint64, 1000)
	for i := range keys {
		keys[i] = uint64(i) << 20
	}
	open := func() (*tiers.Disks, *tiers.Tiered) {
		d, err := tiers.OpenDisks(tiers.DisksConfig{Dirs: []string{dir}, Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		return d, tieredOn(t, d, spec, 7)
	}
	shut := func(d *tiers.Disks, m *tiers.Tiered) {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	d, m := open()
	fill(m, keys)
	if n, err := m.Delete(keys[:100]); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	for more := true; more; {
		var err error
		if more, err = m.Flush(50); err != nil {
			t.Fatal(err)
		}
		m.Poll()
	}
	want, err := m.Digest()
	if err != nil {
		t.Fatal(err)
	}
	number, err := d.Commit([]byte("step 9"))
	if err != nil {
		t.Fatal(err)
	}
	for done, err := d.Committed(); done < number; done, err = d.Committed() {
		if err != nil {
			t.Fatal(err)
		}
		d.Poll()
	}
	fill(m, keys[:100])
	shut(d, m)

	d, m = open()
	defer shut(d, m)
	if n, note := d.Recovered(); n != number || string(note) != "step 9" {
		t.Errorf("recovered commit %d with note %q, want %d", n, note, number)
	}
	got, err := m.Digest()
	if err != nil || got != want || m.Len() != 900 {
		t.Errorf("%d rows, digest %v, want 900, %v (%v)", m.Len(), got, want, err)
	}
}
