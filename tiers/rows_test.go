package tiers_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"psrt/tiers"
	"psrt/tiers/policy"
	"psrt/tiers/table"
	"psrt/tiers/tierstest/rowstest"
)

func close1(t *testing.T, r tiers.Rows) tiers.Rows {
	t.Cleanup(func() {
		for range 2 {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

func TestMemoryAgainstReference(t *testing.T) {
	rowstest.Run(t, rowstest.Config{Steps: 600, Batch: 60}, func(t *testing.T, _ *rand.Rand, spec table.Spec, seed uint64) tiers.Rows {
		m, err := tiers.NewMemory(spec, seed, tiers.MemoryConfig{Node: -1, Tracked: true})
		if err != nil {
			t.Fatal(err)
		}
		return close1(t, m)
	})
}

// TestTieredAgainstReference: memory for few dozen rows of some hundreds.
func TestTieredAgainstReference(t *testing.T) {
	for _, name := range []string{policy.NameBelady, policy.NameS3FIFO, policy.NameLRU} {
		for _, fail := range []float64{0, 0.02} {
			t.Run(fmt.Sprintf("%s fail=%v", name, fail), func(t *testing.T) {
				steps := 300
				if testing.Short() {
					steps = 150
				}
				cfg := rowstest.Config{Steps: steps, Batch: 40, MayFail: func(err error) bool { return errors.Is(err, tiers.ErrFake) }}
				rowstest.Run(t, cfg, func(t *testing.T, r *rand.Rand, spec table.Spec, seed uint64) tiers.Rows {
					d := tiers.NewFakeDisk(r, spec)
					d.FailReads, d.Busy, d.Moves, d.ReadDepth = fail, 0.05, r.IntN(3), 1+r.IntN(40)
					c := tiers.Config{Node: -1, BatchRows: 48, Policy: name, MaxBytes: 1}
					c.MaxBytes = tiers.Least(spec, c)*5/4 + 30000
					m, err := tiers.NewTieredOn(d, spec, seed, c)
					if err != nil {
						t.Fatal(err)
					}
					return close1(t, m)
				})
			})
		}
	}
}
