package ssd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/tiers/blk"
)

// devices holds a table striped over several limited devices against one on a
// single such device. Both have a seventh or so of their rows in memory.
func (r *run) devices(ctx context.Context) error {
	c := *r.cfg
	c.Lanes = 1
	c.Rows = min(c.Rows, 1<<20)
	c.Memory = max(c.payload()/4, 16<<20)
	var sides [2]*ours
	defer func() {
		for _, s := range sides {
			if s != nil {
				_ = s.close() // they hold nothing that is looked at any more
			}
		}
	}()
	for i, n := range []int{1, c.Devices} {
		var dirs []string
		for d := range n {
			dir := filepath.Join(c.Dirs[d%len(c.Dirs)], fmt.Sprintf("limited-%d-of-%d", d, n))
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			dirs = append(dirs, dir)
		}
		var err error
		var limited []*blk.Limited
		sides[i], err = openOurs(&c, dirs, func(dir string) (blk.Device, error) {
			d, err := blk.Open(dir, blk.Config{})
			if err != nil {
				return nil, err
			}
			l := blk.NewLimited(d, fillIOPS, 0)
			limited = append(limited, l)
			return l, nil
		})
		if err != nil {
			return err
		}
		if err := sides[i].fill(ctx); err != nil {
			return err
		}
		for _, l := range limited {
			l.SetRate(c.IOPS)
		}
	}
	return r.playDevices(ctx, &c, sides)
}

// fillIOPS is no limit: filling is not measured.
const fillIOPS = 1e9

// deviceTime is how long one device is kept at work in a round.
const deviceTime = 500 * time.Millisecond

func (r *run) playDevices(ctx context.Context, c *Config, sides [2]*ours) error {
	c.Batches = max(4, int(c.IOPS*deviceTime.Seconds())/c.Keys)
	k := newKeys(c, 99, false)
	read := operation{name: devicesName, run: side.read}
	var speed, ratio, cpu []float64
	var sum uint32
	bytes := float64(c.Batches * c.Keys * c.RowBytes)
	for number := range c.Rounds + 1 {
		rd := newRound(ctx, c, k, number)
		var t [2]took
		var sums [2]uint32
		for i := range 2 {
			who := (i + number) % 2
			var err error
			if t[who], sums[who], err = play(sides[who], &read, rd); err != nil {
				return err
			}
		}
		if sums[0] != sums[1] {
			return errors.New("ssd: one device and several give different rows")
		}
		if number == 0 {
			continue
		}
		sum = sums[0]
		// What comes from disk is what counts: the rows in memory are not the same.
		one, many := float64(t[0].did.readRows)/t[0].wall, float64(t[1].did.readRows)/t[1].wall
		speed, ratio, cpu = append(speed, bytes/t[1].wall/1e9), append(ratio, many/one), append(cpu, t[1].cpu)
	}
	x := turns.Median(ratio)
	avg := turns.Median(speed)
	r.out.Rows = append(r.out.Rows, report.Row{
		Op: fmt.Sprintf("read, %d devices", c.Devices), Bytes: c.RowBytes, Iterations: c.Rounds * c.Batches * c.Keys,
		Bandwidth: &report.Bandwidth{Avg: avg, Rate: avg * 1e3 / float64(c.RowBytes)},
		Limit:     avg / x * float64(c.Devices), Ratio: x / float64(c.Devices), CPUSecondsPerGB: turns.Median(cpu) / (bytes / 1e9),
		Load: report.Load(), Checksum: fmt.Sprintf("%08x", sum),
	})
	r.note("devices: %d devices of %.0f reads a second each give %.2f times the rows of one", c.Devices, c.IOPS, x)
	return nil
}
