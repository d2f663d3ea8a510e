package ahead

import (
	"errors"

	"psrt/tiers/blk"
	"psrt/tiers/blk/randread"
)

// disk is the device by itself: blocks at random places of a file.
type disk struct {
	dev    blk.Device
	runner *randread.Runner
	seed   uint64
}

const (
	diskBytes = 2 << 30
	diskReads = 40000
	diskDepth = 128
)

func newDisk(dir string, seed uint64) (_ *disk, err error) {
	dev, err := blk.Open(dir, blk.Config{})
	if err != nil {
		return nil, err
	}
	d := &disk{dev: dev, seed: seed}
	file, err := randread.Prepare(dev, "reads", diskBytes)
	if err == nil {
		d.runner, err = randread.Open(dev, file, diskBytes, randread.Config{Bytes: dev.Block(), Depth: min(diskDepth, dev.Depth()), Reads: diskReads, Seed: seed})
	}
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return d, nil
}

// perSecond is how many blocks the disk reads in a second.
func (d *disk) perSecond() (float64, error) {
	d.seed++
	d.runner.Seed(d.seed)
	r, err := d.runner.Run()
	return r.PerSecond(), err
}

func (d *disk) close() error { return d.dev.Close() }
