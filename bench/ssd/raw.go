package ssd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"psrt/tiers/blk"
)

// raw is the disk itself, at the depth and in the blocks that our log uses.
type raw struct {
	dev   blk.Device
	file  int
	size  int64
	buf   []byte
	block int
	r     *rand.Rand
	at    int64
}

// piece is one sequential write.
const piece = 1 << 20

func newRaw(c *Config) (_ *raw, err error) {
	dir := filepath.Join(c.Dirs[0], "raw")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d, err := blk.Open(dir, blk.Config{})
	if err != nil {
		return nil, err
	}
	w := &raw{dev: d, block: d.Block(), r: rand.New(rand.NewPCG(c.Seed, 3))}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	w.size = (int64(c.Rows)*int64(c.rowBytes()) + piece - 1) / piece * piece
	if w.buf, err = d.Buffers(16 * piece); err != nil {
		return w, err
	}
	for i := range w.buf {
		w.buf[i] = byte(i * 31)
	}
	if w.file, err = d.Create("raw", w.size); err != nil {
		return w, err
	}
	// Blocks that were never written are read without the disk.
	return w, w.write(context.Background(), w.size)
}

// drive submits n requests, as made by next, and waits for all.
func (w *raw) drive(ctx context.Context, n int, next func(slot int) blk.Request, slots int) error {
	free := make([]int, slots)
	for i := range free {
		free[i] = i
	}
	var rs []blk.Request
	results := make([]blk.Result, slots)
	for sent, done := 0, 0; done < n; {
		for sent < n && len(free) > 0 {
			s := free[len(free)-1]
			free = free[:len(free)-1]
			r := next(s)
			r.ID = uint64(s)
			rs = append(rs, r)
			sent++
		}
		if len(rs) > 0 {
			taken, err := w.dev.Submit(rs)
			if err != nil {
				return err
			}
			rs = rs[:copy(rs, rs[taken:])]
		}
		got := w.dev.Poll(results)
		for _, x := range results[:got] {
			if x.Err != nil {
				return x.Err
			}
			free = append(free, int(x.ID))
		}
		done += got
		// As our log does: a few at a time, not one by one.
		if got < min(16, n-done) {
			if err := w.dev.Wait(time.Now().Add(stall)); err != nil {
				return fmt.Errorf("ssd: the disk: %w", err)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads n blocks at random places.
func (w *raw) read(ctx context.Context, n int) error {
	return w.drive(ctx, n, func(s int) blk.Request {
		at := w.r.Int64N(w.size/int64(w.block)) * int64(w.block)
		return blk.Request{Op: blk.Read, File: w.file, Offset: at, Buf: w.buf[s*w.block : (s+1)*w.block]}
	}, min(w.dev.Depth(), len(w.buf)/w.block))
}

// write writes so many bytes one after the other, over again from the start
// where the file ends, and makes them durable.
func (w *raw) write(ctx context.Context, bytes int64) error {
	n := int((bytes + piece - 1) / piece)
	err := w.drive(ctx, n, func(s int) blk.Request {
		at := w.at
		w.at = (w.at + piece) % w.size
		return blk.Request{Op: blk.Write, File: w.file, Offset: at, Buf: w.buf[s*piece : (s+1)*piece]}
	}, len(w.buf)/piece)
	if err != nil {
		return err
	}
	return w.drive(ctx, 1, func(int) blk.Request { return blk.Request{Op: blk.Sync, File: w.file} }, 1)
}

func (w *raw) close() error { return w.dev.Close() }
