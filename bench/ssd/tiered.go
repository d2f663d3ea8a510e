package ssd

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"psrt/tiers"
)

// openTiered makes a table over our log on all directories.
func openTiered(c *Config) (*ours, error) {
	wake := make(chan struct{}, 1)
	ring := func() {
		select {
		case wake <- struct{}{}:
		default: // it is to come already
		}
	}
	cfg := tiers.DisksConfig{Expected: int64(c.Rows) * int64(c.rowBytes()), Wake: ring}
	for i, d := range c.Dirs {
		dir := filepath.Join(d, "psrt-"+strconv.Itoa(i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		cfg.Dirs = append(cfg.Dirs, dir)
	}
	disks, err := tiers.OpenDisks(cfg)
	if err != nil {
		return nil, err
	}
	rows, err := tiers.NewTiered(c.spec(), c.Seed, tiers.Config{Disks: disks, Node: -1, MaxBytes: c.Memory - disks.Bytes(), BatchRows: c.Keys * c.InFlight, Policy: "s3fifo", Wake: ring})
	if err != nil {
		return nil, errors.Join(err, disks.Close())
	}
	o := newOurs(c, rows, wake)
	o.disks = disks
	return o, nil
}
