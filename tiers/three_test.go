package tiers_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/hbmtest"
	"psrt/tiers/policy"
	"psrt/tiers/table"
	"psrt/tiers/tierstest/rowstest"
)

// three is a table in three tiers: slots of a device for few dozen rows, frames of
// memory for not many more, a disk.
func three(t *testing.T, r *rand.Rand, d *tiers.FakeDisk, spec table.Spec, seed uint64, name string) *hbm.Cache {
	t.Helper()
	c := tiers.Config{Node: -1, BatchRows: 48, Policy: name, MaxBytes: 1}
	c.MaxBytes = tiers.Least(spec, c)*5/4 + 30000
	below, err := tiers.NewTieredOn(d, spec, seed, c)
	if err != nil {
		t.Fatal(err)
	}
	return cached(t, r, below, name)
}

func cached(t *testing.T, r *rand.Rand, below hbm.Below, name string) *hbm.Cache {
	t.Helper()
	devices := append(gpus(t), hbm.Host{Node: -1}, &hbmtest.Late{})
	spec, rows := below.Spec(), 96+r.IntN(120)
	cfg := hbm.Config{Device: devices[r.IntN(len(devices))], Node: -1, BatchRows: 48, Policy: name, MaxBytes: int64(rows * spec.RowBytes())}
	for cfg.Device.Slots(&spec, cfg.MaxBytes, cfg.BatchRows) < rows { // its stages, too
		cfg.MaxBytes += 4096
	}
	if r.IntN(2) == 0 { // a device that fails, and a journal of what it had
		cfg.Device = &hbmtest.Late{FailAfter: 1 + r.IntN(600)}
		cfg.Journal = int64((48 + r.IntN(300)) * 4 * (spec.PushFloats() + 1))
	}
	c, err := hbm.New(below, cfg)
	if err != nil {
		t.Fatal(err)
	}
	close1(t, c)
	if err := c.Unwritten(); (err != nil) != (cfg.Journal == 0) {
		t.Errorf("a journal of %d bytes: %v", cfg.Journal, err)
	}
	return c
}

// TestThreeTiersAgainstReference: a device over memory, and over memory and a disk
// that fails, is busy and moves rows; the device fails, too, and a stand-in goes on for it.
func TestThreeTiersAgainstReference(t *testing.T) {
	var all []*hbm.Cache
	defer func() { // of a few, as who looks for one seed runs, none may
		if len(all) > 20 && !slices.ContainsFunc(all, func(c *hbm.Cache) bool { return c.Stats().Device.Failed != "" }) {
			t.Error("no device has failed: the test tests nothing of that")
		}
	}()
	for _, name := range []string{policy.NameBelady, policy.NameS3FIFO, policy.NameLRU} {
		for _, fail := range []float64{-1, 0, 0.02} {
			t.Run(fmt.Sprintf("%s fail=%v", name, fail), func(t *testing.T) {
				steps := 300
				if testing.Short() {
					steps = 100
				}
				cfg := rowstest.Config{Steps: steps, Batch: 40, MayFail: func(err error) bool { return errors.Is(err, tiers.ErrFake) }}
				rowstest.Run(t, cfg, func(t *testing.T, r *rand.Rand, spec table.Spec, seed uint64) tiers.Rows {
					if fail < 0 {
						m, err := tiers.NewMemory(spec, seed, tiers.MemoryConfig{Node: -1, Tracked: true})
						if err != nil {
							t.Fatal(err)
						}
						all = append(all, cached(t, r, m, name))
						return all[len(all)-1]
					}
					d := tiers.NewFakeDisk(r, spec)
					d.FailReads, d.Busy, d.Moves, d.ReadDepth = fail, 0.05, r.IntN(3), 1+r.IntN(40)
					all = append(all, three(t, r, d, spec, seed, name))
					return all[len(all)-1]
				})
			})
		}
	}
}

// TestLifeInThreeTiers: what happens to rows happens the same way there.
func TestLifeInThreeTiers(t *testing.T) {
	rounds, hits, failed := 24, uint64(0), 0
	if testing.Short() {
		rounds = 6
	}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			r := seedtest.Rand(t)
			spec, seed := lifeSpec(r), r.Uint64()
			m, err := tiers.NewMemory(spec, seed, tiers.MemoryConfig{Node: -1, Tracked: true})
			if err != nil {
				t.Fatal(err)
			}
			d := tiers.NewFakeDisk(r, spec)
			d.Busy, d.Moves, d.ReadDepth = 0.05, r.IntN(3), 1+r.IntN(40)
			name := []string{policy.NameBelady, policy.NameS3FIFO, policy.NameLRU}[round%3]
			c := three(t, r, d, spec, seed, name)
			w := &lifeWalk{t: t, r: r, spec: spec, disk: d, fail: []float64{0, 0.02}[r.IntN(2)], tabs: [2]tiers.Rows{close1(t, m), c}}
			for step := range 400 {
				w.step()
				if step%40 == 39 {
					w.compare()
				}
				if t.Failed() {
					t.Fatalf("step %d of %s", step, spec.Effective())
				}
			}
			if hits += c.Stats().Device.Hits; c.Stats().Device.Failed != "" {
				failed++
			}
		})
	}
	if hits == 0 || failed == 0 {
		t.Errorf("%d rows were found on the device, and %d devices have failed: the test tests nothing", hits, failed)
	}
}
