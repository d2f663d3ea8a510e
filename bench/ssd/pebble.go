package ssd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"psrt/rdma/mem"
	"psrt/tiers/dram"
)

// readers is how many goroutines get rows: a Get waits for its disk reads, so
// that it takes many to keep a disk busy.
const readers = 64

// rival keeps rows in Pebble: no log of writes (training has checkpoints), bloom
// filters, no compression, a block cache of what memory its write buffers leave.
// The kernel's page cache, which would be memory beyond the bound, keeps nothing.
type rival struct {
	c    *Config
	db   *pebble.DB
	rule *dram.Table // of one batch: the optimizer's arithmetic
	ids  []uint32
}

func newRival(c *Config) (*rival, error) {
	buffers := c.Memory / 8
	o := &pebble.Options{
		FS: noCache{vfs.Default}, DisableWAL: true, CacheSize: c.Memory - 2*buffers,
		MemTableSize: uint64(buffers), MemTableStopWritesThreshold: 2,
		Logger: silent{}, CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize = 4096
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	}
	db, err := pebble.Open(filepath.Join(c.Dirs[0], "pebble"), o)
	if err != nil {
		return nil, fmt.Errorf("ssd: pebble: %w", err)
	}
	rule, err := dram.New(c.spec(), c.Seed, dram.Config{Node: -1})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &rival{c: c, db: db, rule: rule, ids: make([]uint32, c.Keys)}, nil
}

func (r *rival) name() string { return "pebble" }

func keyBytes(key uint64) (b [8]byte) {
	binary.BigEndian.PutUint64(b[:], key)
	return b
}

// set puts rows in batches of the classic size, unsynced.
func (r *rival) set(n int, row func(i int) (key uint64, row []float32)) error {
	for at := 0; at < n; at += 1024 {
		b := r.db.NewBatch()
		for i := at; i < min(n, at+1024); i++ {
			k, v := row(i)
			kb := keyBytes(k)
			if err := b.Set(kb[:], mem.Bytes(v), nil); err != nil {
				return errors.Join(err, b.Close())
			}
		}
		if err := b.Commit(pebble.NoSync); err != nil {
			return err
		}
	}
	return nil
}

// fill puts the rows in the order of their keys, as bulk loads do: that leaves
// nothing to merge, so that reads find every row in one place.
func (r *rival) fill(ctx context.Context) error {
	sorted := make([]uint64, r.c.Rows)
	for p := range sorted {
		sorted[p] = keyOf(p)
	}
	slices.Sort(sorted)
	row := make([]float32, r.c.RowBytes/4)
	const step = 1 << 16
	for at := 0; at < len(sorted); at += step {
		part := sorted[at:min(at+step, len(sorted))]
		if err := r.set(len(part), func(i int) (uint64, []float32) {
			rowOf(placeOf(part[i]), row)
			return part[i], row
		}); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if err := r.db.Flush(); err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	return r.forget()
}

// settled is for how long nothing must be merged or flushed until the rival is at
// rest: it never comes to owe nothing at all, and begins what is due at once.
const settled = time.Second

// settle lets it merge by itself what it wants to.
func (r *rival) settle(ctx context.Context) error {
	quiet := time.Now()
	for end := time.Now().Add(10 * stall); time.Now().Before(end) && time.Since(quiet) < settled; {
		if m := r.db.Metrics(); m.Compact.NumInProgress > 0 || m.Flush.NumInProgress > 0 {
			quiet = time.Now()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// forget drops what the kernel still has of the files: pages that were never
// written to disk would stay, so that they are written first.
func (r *rival) forget() error {
	names, err := filepath.Glob(filepath.Join(r.c.Dirs[0], "pebble", "*.sst"))
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // compacted away
		}
		if err != nil {
			return err
		}
		err = f.Sync()
		if err == nil {
			err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// get calls f with each key's row, from several goroutines.
func (r *rival) get(keys []uint64, f func(i int, row []byte)) error {
	errs := make([]error, readers)
	var wg sync.WaitGroup
	for w := range readers {
		wg.Go(func() {
			for i := w; i < len(keys); i += readers {
				k := keyBytes(keys[i])
				v, done, err := r.db.Get(k[:])
				if err != nil {
					errs[w] = fmt.Errorf("ssd: pebble: key %d: %w", keys[i], err)
					return
				}
				f(i, v)
				if err := done.Close(); err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *rival) read(rd *round) error {
	width := 4 * r.c.dim()
	for b, keys := range rd.keys {
		out := mem.Bytes(rd.answer(b))
		if err := r.get(keys, func(i int, row []byte) { copy(out[i*width:(i+1)*width], row) }); err != nil {
			return err
		}
	}
	return rd.ctx.Err()
}

func (r *rival) write(rd *round) error {
	width := r.c.RowBytes / 4
	for _, keys := range rd.keys {
		if err := r.set(len(keys), func(i int) (uint64, []float32) { return keys[i], rd.rows[i*width : (i+1)*width] }); err != nil {
			return err
		}
	}
	return rd.ctx.Err()
}

func (r *rival) rmw(rd *round) error {
	width := r.c.RowBytes
	rows := make([]float32, len(rd.keys[0])*width/4)
	for _, keys := range rd.keys {
		b := mem.Bytes(rows)
		if err := r.get(keys, func(i int, row []byte) { copy(b[i*width:(i+1)*width], row) }); err != nil {
			return err
		}
		for i := range keys {
			if err := r.rule.Load(uint64(i), rows[i*width/4:(i+1)*width/4]); err != nil {
				return err
			}
		}
		places := make([]uint64, len(keys))
		for i := range places {
			places[i] = uint64(i)
		}
		if _, err := r.rule.Lookup(places, r.ids, false); err != nil {
			return err
		}
		r.rule.Apply(r.ids, rd.grads)
		if err := r.set(len(keys), func(i int) (uint64, []float32) { return keys[i], r.rule.Row(r.ids[i]) }); err != nil {
			return err
		}
	}
	return rd.ctx.Err()
}

func (r *rival) counters() counters {
	m := r.db.Metrics()
	total := m.Total()
	return counters{written: int64(total.TableBytesFlushed + total.TableBytesCompacted), diskBytes: int64(m.DiskSpaceUsage()), debt: int64(m.Compact.EstimatedDebt)}
}

func (r *rival) close() error { return errors.Join(r.db.Close(), r.rule.Close()) }

// silent drops what Pebble would print.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("pebble: "+format, args...))
}

// noCache is the file system without the kernel's page cache: what was read, or
// written and synced, is dropped at once.
type noCache struct{ vfs.FS }

func (f noCache) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return uncached{file}, nil
}

type uncached struct{ vfs.File }

func (u uncached) ReadAt(p []byte, off int64) (int, error) {
	n, err := u.File.ReadAt(p, off)
	if fd := u.Fd(); fd != vfs.InvalidFd {
		_ = unix.Fadvise(int(fd), off, int64(len(p)), unix.FADV_DONTNEED) // advice
	}
	return n, err
}

func (f noCache) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	return uncached{file}, nil
}

func (u uncached) Sync() error { return u.synced(u.File.Sync()) }

func (u uncached) SyncData() error { return u.synced(u.File.SyncData()) }

func (u uncached) synced(err error) error {
	if fd := u.Fd(); err == nil && fd != vfs.InvalidFd {
		_ = unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED) // advice
	}
	return err
}
