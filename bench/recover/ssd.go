package recover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"psrt/tiers"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// stored is one lane's rows on disk, with some of them in memory.
type stored struct {
	rows  *tiers.Tiered
	disks *tiers.Disks
	wake  chan struct{}
}

const (
	// leastMemory is for a lane's index and two batches, whatever the rows take.
	leastMemory = 16 << 20
	batchRows   = 4096
	diskSays    = time.Minute // how long a disk may say nothing
)

// memory is a lane's: the index of its rows, and a quarter of them.
func (c *Config) memory() int64 {
	return leastMemory + int64(c.Rows)*int64(20+c.rowBytes()/4)/int64(c.Lanes)
}

func openStored(c *Config, lane int, keep bool) (_ *stored, err error) {
	s := &stored{wake: make(chan struct{}, 1)}
	var dirs []string
	for _, d := range c.SSD {
		dirs = append(dirs, filepath.Join(d, fmt.Sprintf("lane%d", lane)))
		if err := os.MkdirAll(dirs[len(dirs)-1], 0o777); err != nil {
			return nil, err
		}
	}
	if !keep {
		for _, d := range dirs {
			if err := errors.Join(os.RemoveAll(d), os.Mkdir(d, 0o777)); err != nil {
				return nil, err
			}
		}
	}
	wake := func() {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	if s.disks, err = tiers.OpenDisks(tiers.DisksConfig{Dirs: dirs, Keep: true, Wake: wake}); err != nil {
		return nil, err
	}
	s.rows, err = tiers.NewTiered(c.spec(), c.Seed, tiers.Config{Disks: s.disks, Node: -1, BatchRows: batchRows, MaxBytes: c.memory(), Wake: wake})
	if err != nil {
		return nil, errors.Join(err, s.disks.Close())
	}
	return s, nil
}

func (s *stored) close() error { return errors.Join(s.rows.Close(), s.disks.Close()) }

func (s *stored) wait(ctx context.Context) error {
	t := time.NewTimer(diskSays)
	defer t.Stop()
	select {
	case <-s.wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return fmt.Errorf("recover: no disk has answered for %v", diskSays)
	}
}

// commit makes durable what the lane has.
func (s *stored) commit(ctx context.Context) error {
	for {
		more, err := s.rows.Flush(batchRows)
		if err != nil {
			return err
		}
		s.disks.Poll()
		if !more {
			break
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	number, err := s.disks.Commit(nil)
	for err == nil {
		var done uint64
		s.disks.Poll()
		if done, err = s.disks.Committed(); err == nil && done >= number {
			return nil
		}
		err = errors.Join(err, s.wait(ctx))
	}
	return err
}

// look brings rows into memory, a batch at a time.
func (s *stored) look(ctx context.Context, keys []uint64) error {
	rows := make([]uint32, batchRows)
	for len(keys) > 0 {
		n := min(len(keys), batchRows)
		l := tiers.Lookup{Keys: keys[:n], Rows: rows[:n]}
		for done := s.rows.Start(&l); !done; done = len(s.disks.Poll()) > 0 {
			if err := s.wait(ctx); err != nil {
				return err
			}
		}
		if l.Err != nil {
			return l.Err
		}
		s.rows.Release(rows[:n])
		keys = keys[n:]
	}
	return nil
}

// stores are all lanes.
type stores struct {
	c  *Config
	of []*stored
}

func openStores(c *Config, keep bool) (*stores, error) {
	s := &stores{c: c, of: make([]*stored, c.Lanes)}
	err := inLanes(c.Lanes, func(lane int) (err error) {
		s.of[lane], err = openStored(c, lane, keep)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stores) close() error {
	var errs []error
	for _, x := range s.of {
		if x != nil {
			errs = append(errs, x.close())
		}
	}
	return errors.Join(errs...)
}

func (s *stores) each(f func(lane int, x *stored) error) error {
	return inLanes(len(s.of), func(lane int) error { return f(lane, s.of[lane]) })
}

func (s *stores) load(ctx context.Context, m *ckpt.Model) error {
	return s.each(func(lane int, x *stored) error {
		x.rows.Reserve(m.RowsIn(1, s.c.covers(lane)))
		return m.Rows(ctx, 1, 1, s.c.covers(lane), x.rows.LoadRows)
	})
}

// hot is how many of a lane's rows are looked up after a restart: half of what its
// memory has room for.
func (c *Config) hot() int { return c.Rows / c.Lanes / 8 }

func (s *stores) refill(ctx context.Context) error {
	return s.each(func(lane int, x *stored) error {
		var keys []uint64
		for i := 0; i < s.c.Rows && len(keys) < s.c.hot(); i++ {
			if k := keyOf(i); s.c.laneOf(k) == lane {
				keys = append(keys, k)
			}
		}
		return x.look(ctx, keys)
	})
}

func (s *stores) digest() (string, error) {
	sums := make([]table.Digest, len(s.of))
	err := s.each(func(lane int, x *stored) (err error) {
		sums[lane], err = x.rows.Digest()
		return err
	})
	var sum table.Digest
	for _, d := range sums {
		sum.Add(d)
	}
	return sum.String(), err
}

// bytesRead is what this process has had read from disks so far.
func bytesRead() int64 {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	var n int64
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, "read_bytes: %d", &n); err == nil {
			return n
		}
	}
	return 0
}
