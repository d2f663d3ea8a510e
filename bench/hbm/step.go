package hbm

import (
	"errors"
	"fmt"

	"psrt/tiers"
	"psrt/tiers/hbm"
	"psrt/tiers/table"
)

// steps are those of a server: the next batch is announced, this one's rows are
// looked up, gathered and updated. In a batch of misses some rows are not in the
// device's memory until they are brought there ahead.
type steps struct {
	cache *hbm.Cache
	n     int // rows of a batch
	fresh int // of them rows that were not there
	next  uint64
	cold  uint64 // the next key that is not there
	keys  [2][]uint64
	rows  []uint32
	flat  []float32
	grads []float32
}

// A step has fewer rows than a batch of the other measurements: it is what one lane
// of a server works on.
const (
	stepsARound = 8
	stepShare   = 64 // of a batch
	stepRows    = 16 << 10
	coldBatches = 24
)

func newSteps(c *Config) (*steps, error) {
	s := &steps{n: max(16, min(stepRows, c.Rows/stepShare))}
	s.fresh = s.n * c.Misses / 100
	spec := table.Spec{Name: "step", ID: 2, Dim: c.Dim, Optimizer: table.Optimizer{Kind: table.AdaGrad}}
	device, err := c.device(c.Index)
	if err != nil {
		return nil, err
	}
	below, err := tiers.NewMemory(spec, c.Seed, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		return nil, err
	}
	room := int64(5 * s.n * (spec.RowBytes() + 64)) // two batches of each kind, and what a device works with, which few rows want, too
	if s.cache, err = hbm.New(below, hbm.Config{Device: device, MaxBytes: room + room/4 + 16<<10, BatchRows: s.n, Node: -1}); err != nil {
		return nil, errors.Join(err, below.Close())
	}
	s.rows, s.flat, s.grads = make([]uint32, s.n), make([]float32, s.n*c.Dim), make([]float32, s.n*c.Dim)
	for i := range s.grads {
		s.grads[i] = float32(i%7) * 0.01
	}
	for first := 0; first < coldBatches*s.n; first += s.n { // all rows are born
		keys := make([]uint64, s.n)
		for i := range keys {
			keys[i] = keyOf(uint32(first + i))
		}
		if err := s.look(keys); err != nil {
			return nil, errors.Join(err, s.cache.Close())
		}
	}
	return s, nil
}

// batch is the next step's keys: the first of all rows, and in their place some that
// were used long ago.
func (s *steps) batch(misses bool) []uint64 {
	keys := make([]uint64, s.n)
	for i := range keys {
		keys[i] = keyOf(uint32(i))
	}
	if misses {
		for i := range s.fresh {
			keys[i] = keyOf(uint32(uint64(s.n) + s.cold%uint64((coldBatches-1)*s.n)))
			s.cold++
		}
	}
	return keys
}

func (s *steps) look(keys []uint64) error {
	l := &tiers.Lookup{Keys: keys, Rows: s.rows, Create: true, Into: s.flat}
	for done := s.cache.Start(l); !done; {
		for _, ended := range s.cache.Poll() {
			done = done || ended == l
		}
	}
	if l.Err != nil {
		return l.Err
	}
	if !l.Gathered {
		s.cache.Gather(s.rows, s.flat)
	}
	refused := s.cache.Apply(s.rows, s.grads)
	s.cache.Release(s.rows)
	if err := s.cache.Failed(); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("hbm: %d updates of a step were refused", refused)
	}
	return nil
}

// round takes some steps. The first is announced before the clock runs.
func (s *steps) round(misses bool) (float64, error) {
	s.keys[0] = s.batch(misses)
	s.cache.Announce(s.next, s.keys[0])
	var err error
	took, _ := timed(func() {
		for range stepsARound {
			s.keys[1] = s.batch(misses)
			s.cache.Announce(s.next+1, s.keys[1])
			if err = s.look(s.keys[0]); err != nil {
				return
			}
			s.cache.Passed(s.next)
			s.next++
			s.keys[0], s.keys[1] = s.keys[1], s.keys[0]
		}
	})
	s.cache.Passed(s.next)
	s.next++
	return took, err
}
