package recover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"psrt/tiers/blk"
)

const (
	piece     = 1 << 20
	pieces    = 16        // in flight on a device
	mostBytes = 256 << 20 // written to a device to know its rate
)

// writeRate is the bytes a second that all devices take together, in files whose
// room was set aside just before, as a store's are.
func (c *Config) writeRate(ctx context.Context) (float64, error) {
	bytes := min(mostBytes, (int64(c.Rows)*int64(c.rowBytes())/int64(len(c.SSD))+piece-1)/piece*piece)
	begun := time.Now()
	err := inLanes(len(c.SSD), func(i int) error { return writeRaw(ctx, filepath.Join(c.SSD[i], "raw"), bytes) })
	return float64(bytes) * float64(len(c.SSD)) / time.Since(begun).Seconds(), err
}

func writeRaw(ctx context.Context, dir string, bytes int64) (err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := blk.Open(dir, blk.Config{Depth: pieces})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	file, err := d.Create("raw", bytes)
	if err != nil {
		return err
	}
	buf, err := d.Buffers(pieces * piece)
	if err != nil {
		return err
	}
	free := make([]uint64, pieces)
	for i := range free {
		free[i] = uint64(i)
	}
	var out [pieces]blk.Result
	for at := int64(0); at < bytes || len(free) < pieces; {
		var rs []blk.Request
		for ; at < bytes && len(free) > 0; at += piece {
			id := free[len(free)-1]
			free = free[:len(free)-1]
			rs = append(rs, blk.Request{Op: blk.Write, File: file, Offset: at, Buf: buf[id*piece : (id+1)*piece], ID: id})
		}
		if n, err := d.Submit(rs); err != nil || n < len(rs) {
			return errors.Join(err, fmt.Errorf("recover: %v took %d of %d writes", d, n, len(rs)))
		}
		n := d.Poll(out[:])
		for _, r := range out[:n] {
			if r.Err != nil {
				return r.Err
			}
			free = append(free, r.ID)
		}
		if n > 0 {
			continue
		}
		if err := errors.Join(d.Wait(time.Now().Add(diskSays)), context.Cause(ctx)); err != nil {
			return fmt.Errorf("recover: %v: %w", d, err)
		}
	}
	return nil
}
