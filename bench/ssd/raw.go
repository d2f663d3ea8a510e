package ssd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"psrt/tiers/blk"
	"psrt/tiers/blk/randread"
)

// raw is the disk itself, at the depth and in the blocks that our log uses: read
// by a bare ring and by fio, written one piece after the other.
type raw struct {
	dev    blk.Device
	path   string
	second int // the file that is written to
	buf    []byte
	at     int64
	reads  randread.Config
	runner *randread.Runner
	noFio  bool
}

const (
	piece       = 1 << 20 // of a sequential write
	pieces      = 16      // in flight
	rawReads    = 40_000  // of a round
	secondBytes = 16 * pieces * piece
	fioTime     = 700 * time.Millisecond // for as many
)

func newRaw(c *Config) (_ *raw, err error) {
	dir := filepath.Join(c.Dirs[0], "raw")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	depth := 128 * c.Lanes
	d, err := blk.Open(dir, blk.Config{Depth: depth})
	if err != nil {
		return nil, err
	}
	w := &raw{dev: d, path: filepath.Join(dir, "raw"), reads: randread.Config{Bytes: d.Block(), Depth: depth, Reads: min(rawReads, c.Batches*c.Keys), Batch: 32, Seed: c.Seed}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	size := (c.payload() + piece - 1) / piece * piece
	// Blocks that were never written would be read without the disk.
	file, err := randread.Prepare(d, "raw", size)
	if err != nil {
		return w, err
	}
	if w.runner, err = randread.Open(d, file, size, w.reads); err != nil {
		return w, err
	}
	if w.second, err = d.Create("written", secondBytes); err != nil {
		return w, err
	}
	w.buf, err = d.Buffers(pieces * piece)
	return w, err
}

// rates are reads a second and what one takes of a processor.
type rates struct {
	perSecond float64
	micros    float64
}

// read reads blocks at random places; fio's are 0 where it is not installed.
func (w *raw) read(ctx context.Context) (ring, fio rates, err error) {
	w.reads.Seed++
	w.runner.Seed(w.reads.Seed)
	r, err := w.runner.Run()
	if err != nil {
		return ring, fio, err
	}
	ring = rates{r.PerSecond(), r.CPUMicros()}
	if w.noFio {
		return ring, fio, nil
	}
	r, err = randread.Fio(ctx, w.path, w.reads, max(50*time.Millisecond, fioTime*time.Duration(w.reads.Reads)/rawReads))
	if errors.Is(err, randread.ErrNoFio) {
		w.noFio = true
		return ring, fio, nil
	}
	if err != nil {
		return ring, fio, err
	}
	return ring, rates{r.PerSecond(), r.CPUMicros()}, nil
}

// write writes so many bytes one after the other, over again from the start
// where the file ends, and makes them durable.
func (w *raw) write(ctx context.Context, bytes int64) error {
	n := int((bytes + piece - 1) / piece)
	for done := 0; done < n; {
		batch := make([]blk.Request, min(pieces, n-done))
		for i := range batch {
			batch[i] = blk.Request{Op: blk.Write, File: w.second, Offset: w.at, Buf: w.buf[i*piece : (i+1)*piece], ID: uint64(i)}
			w.at = (w.at + piece) % secondBytes
		}
		if err := w.do(ctx, batch); err != nil {
			return err
		}
		done += len(batch)
	}
	return w.do(ctx, []blk.Request{{Op: blk.Sync, File: w.second}})
}

// do submits requests and waits for all.
func (w *raw) do(ctx context.Context, rs []blk.Request) error {
	var out [pieces]blk.Result
	for left := len(rs); left > 0; {
		n, err := w.dev.Submit(rs)
		if err != nil {
			return err
		}
		rs = rs[n:]
		n = w.dev.Poll(out[:])
		for i := range out[:n] {
			if out[i].Err != nil {
				return out[i].Err
			}
		}
		if left -= n; n > 0 {
			continue
		}
		if err := w.dev.Wait(time.Now().Add(stall)); err != nil {
			return fmt.Errorf("ssd: the disk: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (w *raw) close() error { return w.dev.Close() }
