package ssd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"psrt/tiers"
	"psrt/tiers/blk"
)

// ours is a table as a server has it: its rows shared out among lanes, each a
// goroutine with a log of its own on all directories.
type ours struct {
	c     *Config
	lanes []*lane
}

// openOurs makes the lanes over what dev opens of a directory.
func openOurs(c *Config, dirs []string, dev func(dir string) (blk.Device, error)) (*ours, error) {
	o := &ours{c: c}
	for n := range c.Lanes {
		l, err := openLane(c, n, dirs, dev)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("ssd: lane %d: %w", n, err), o.close())
		}
		o.lanes = append(o.lanes, l)
	}
	return o, nil
}

func openLane(c *Config, n int, dirs []string, dev func(dir string) (blk.Device, error)) (*lane, error) {
	wake := make(chan struct{}, 1)
	ring := func() {
		select {
		case wake <- struct{}{}:
		default: // it is to come already
		}
	}
	var devs []blk.Device
	for i, d := range dirs {
		dir := filepath.Join(d, fmt.Sprintf("psrt-%d-lane%d", i, n))
		err := os.MkdirAll(dir, 0o700)
		var device blk.Device
		if err == nil {
			device, err = dev(dir)
		}
		if err != nil {
			for _, d := range devs {
				err = errors.Join(err, d.Close())
			}
			return nil, err
		}
		devs = append(devs, device)
	}
	lanes := int64(c.Lanes)
	disks, err := tiers.NewDisks(devs, tiers.DisksConfig{Expected: c.payload() / lanes, Wake: ring})
	if err != nil {
		return nil, err
	}
	rows, err := tiers.NewTiered(c.spec(), c.Seed, tiers.Config{Disks: disks, Node: -1, MaxBytes: c.Memory/lanes - disks.Bytes(),
		BatchRows: c.Keys * c.InFlight, Policy: "s3fifo", Wake: ring})
	if err != nil {
		return nil, errors.Join(err, disks.Close())
	}
	l := newLane(c, n, rows, wake)
	l.disks = disks
	return l, nil
}

func (o *ours) name() string { return "psrt" }

// all has every lane do f, at the same time.
func (o *ours) all(f func(l *lane) error) error {
	errs := make([]error, len(o.lanes))
	var wg sync.WaitGroup
	for i, l := range o.lanes {
		wg.Go(func() { errs[i] = f(l) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (o *ours) fill(ctx context.Context) error {
	return o.all(func(l *lane) error { return l.fill(ctx) })
}

func (o *ours) age(ctx context.Context) error {
	return o.all(func(l *lane) error { return l.age(ctx) })
}

func (o *ours) read(rd *round) error  { return o.all(func(l *lane) error { return l.read(rd) }) }
func (o *ours) write(rd *round) error { return o.all(func(l *lane) error { return l.write(rd) }) }
func (o *ours) rmw(rd *round) error   { return o.all(func(l *lane) error { return l.rmw(rd) }) }

// settle: compaction is never behind.
func (o *ours) settle(context.Context) error { return nil }

func (o *ours) counters() (c counters) {
	for _, l := range o.lanes {
		s := l.disks.Stats()
		c.reads += s.ReadRequests
		c.readRows += s.ReadRows
		c.written += s.Written
		c.diskBytes += s.DiskBytes
	}
	return c
}

func (o *ours) close() error {
	var errs []error
	for _, l := range o.lanes {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}
