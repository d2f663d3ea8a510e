package ssd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"psrt/tiers/blk"
)

// seed is PSRT_SEED, or the one given, or fresh for 0; it is printed.
func seed(t testing.TB, fixed uint64) uint64 {
	if s := os.Getenv("PSRT_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("PSRT_SEED=%q: %v", s, err)
		}
		fixed = n
	}
	if fixed == 0 {
		fixed = rand.Uint64()
	}
	t.Logf("PSRT_SEED=%d", fixed)
	return fixed
}

// payload is what key's row is at a version.
func payload(b []byte, key, version uint64) []byte {
	x := key*0x9E3779B97F4A7C15 ^ version*0xC2B2AE3D27D4EB4F
	for i := range b {
		if i%8 == 0 {
			x ^= x >> 29
			x *= 0xBF58476D1CE4E5B9
			x ^= x >> 32
		}
		b[i] = byte(x >> (i % 8 * 8))
	}
	return b
}

// place is where a row is and what it must be.
type place struct {
	slot    uint32
	version uint64
}

// owner is a table as simple as can be: it is the second opinion on the log.
type owner struct {
	log   *Log
	bytes int
	rows  map[uint64]place
	moved int
}

func newOwner(bytes int) *owner { return &owner{bytes: bytes, rows: map[uint64]place{}} }

func (o *owner) config() LogConfig {
	return LogConfig{
		RecordBytes: o.bytes,
		Recover: func(keys []uint64, first uint32, old []uint32) error {
			for i, key := range keys {
				old[i] = o.slot(key)
				o.rows[key] = place{slot: first + uint32(i)}
			}
			return nil
		},
		Gone: func(key uint64) uint32 {
			defer delete(o.rows, key)
			return o.slot(key)
		},
		Moved: func(key uint64, old, next uint32) bool {
			p, ok := o.rows[key]
			if !ok || p.slot != old {
				return false
			}
			p.slot = next
			o.rows[key] = p
			o.moved++
			return true
		},
		Slot: o.slot,
	}
}

func (o *owner) slot(key uint64) uint32 {
	if p, ok := o.rows[key]; ok {
		return p.slot
	}
	return NoSlot
}

// rig is a store with its owners, and what every commit must bring back.
type rig struct {
	t       testing.TB
	s       *Store
	owners  []*owner
	version uint64
	points  map[uint64][]map[uint64]uint64 // commit -> by owner: key -> version
	acked   uint64
	commits int // that have failed
	full    int // times in a row
	tell    func(commit uint64)
	reads   map[uint64]func(ReadDone)
	readID  uint64
}

func newRig(t testing.TB, sizes ...int) *rig {
	r := &rig{t: t, points: map[uint64][]map[uint64]uint64{}, reads: map[uint64]func(ReadDone){}}
	r.points[0] = make([]map[uint64]uint64, len(sizes))
	for i, n := range sizes {
		r.owners = append(r.owners, newOwner(n))
		r.points[0][i] = map[uint64]uint64{}
	}
	return r
}

// open opens the store and its logs.
func (r *rig) open(cfg Config, devs ...blk.Device) (Recovery, error) {
	s, rec, err := Open(devs, cfg)
	if err != nil {
		return rec, err
	}
	r.s = s
	for i, o := range r.owners {
		o.rows = map[uint64]place{}
		if o.log, err = s.Log(fmt.Sprintf("table %d", i), o.config()); err != nil {
			return rec, errors.Join(err, s.Close())
		}
	}
	return rec, nil
}

func (r *rig) mustOpen(cfg Config, devs ...blk.Device) Recovery {
	r.t.Helper()
	rec, err := r.open(cfg, devs...)
	if err != nil {
		r.t.Fatal(err)
	}
	return rec
}

func (r *rig) poll() {
	ev := r.s.Poll()
	for _, d := range ev.Reads {
		if errors.Is(d.Err, blk.ErrCrashed) {
			continue
		}
		f := r.reads[d.ID]
		delete(r.reads, d.ID)
		if f == nil {
			r.t.Fatalf("read %d was answered twice or never asked for", d.ID)
		}
		f(d)
	}
	for _, c := range ev.Commits {
		if c.Err != nil {
			r.commits++
			continue
		}
		if c.Number <= r.acked {
			r.t.Fatalf("commit %d was answered after %d", c.Number, r.acked)
		}
		r.acked = c.Number
	}
}

// retry polls until f is not busy.
func (r *rig) retry(f func() error) error {
	for end := time.Now().Add(2 * time.Minute); ; {
		err := f()
		var full *FullError
		if errors.As(err, &full) && full.Uncommitted > 0 && r.full < 3 {
			// What it says is to be done. Rows superseded since are not free at once.
			r.full++
			if err := r.commit(); err != nil {
				return err
			}
			r.settle()
			continue
		}
		if !errors.Is(err, ErrBusy) {
			r.full = 0
			return err
		}
		r.poll()
		if time.Now().After(end) {
			return fmt.Errorf("busy for two minutes: %+v", r.s.Stats())
		}
	}
}

func (r *rig) put(i int, key uint64) error {
	o := r.owners[i]
	r.version++
	v := r.version
	b := payload(make([]byte, o.bytes), key, v)
	return r.retry(func() error {
		slot, err := o.log.Append(key, b)
		if err != nil {
			return err
		}
		if old, ok := o.rows[key]; ok {
			o.log.Free(old.slot)
		}
		o.rows[key] = place{slot, v}
		return nil
	})
}

func (r *rig) del(i int, key uint64) error {
	o := r.owners[i]
	return r.retry(func() error {
		if err := o.log.Delete(key); err != nil {
			return err
		}
		if old, ok := o.rows[key]; ok {
			o.log.Free(old.slot)
			delete(o.rows, key)
		}
		return nil
	})
}

func (r *rig) snapshot() []map[uint64]uint64 {
	out := make([]map[uint64]uint64, len(r.owners))
	for i, o := range r.owners {
		out[i] = map[uint64]uint64{}
		for k, p := range o.rows {
			out[i][k] = p.version
		}
	}
	return out
}

func (r *rig) commit() error {
	return r.retry(func() error {
		note := binary.LittleEndian.AppendUint64(nil, r.version)
		want := r.s.commits.next
		if r.tell != nil {
			r.tell(want)
		}
		r.points[want] = r.snapshot() // a crash may come inside Commit
		n, err := r.s.Commit(note)
		if err == nil && n != want {
			r.t.Fatalf("commit %d came after %d", n, want-1)
		}
		return err
	})
}

// settle polls until commit n has ended one way or the other.
func (r *rig) settle() {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); r.s.commits.running != nil || r.s.commits.queued != nil || r.s.busy(); {
		r.poll()
		if r.s.Err() != nil {
			r.poll()
			return
		}
		if time.Now().After(end) {
			r.t.Fatal("commits do not end")
		}
	}
	r.poll()
}

func (r *rig) read(i int, key uint64) {
	o := r.owners[i]
	p := o.rows[key]
	dst := make([]byte, o.bytes)
	r.readID++
	r.reads[r.readID] = func(d ReadDone) {
		if d.Err != nil {
			r.t.Fatalf("row %d: %v", key, d.Err)
		}
		if want := payload(make([]byte, o.bytes), key, p.version); !bytes.Equal(dst, want) {
			r.t.Fatalf("log %d, key %d, slot %d is not version %d", i, key, d.Slot, p.version)
		}
	}
	for o.log.Read([]Read{{Key: key, Slot: p.slot, ID: r.readID, Dst: dst}}) == 0 {
		r.poll()
	}
}

// verify reads all rows of all logs and holds them against want.
func (r *rig) verify(want []map[uint64]uint64) error {
	for len(r.reads) > 0 {
		r.poll()
	}
	for i, o := range r.owners {
		if len(o.rows) != len(want[i]) {
			return fmt.Errorf("log %d has %d rows, want %d", i, len(o.rows), len(want[i]))
		}
		if o.log.Len() != len(o.rows) {
			return fmt.Errorf("log %d counts %d live rows, its owner %d", i, o.log.Len(), len(o.rows))
		}
		var rs []Read
		var keys []uint64
		for key, p := range o.rows {
			v, ok := want[i][key]
			if !ok {
				return fmt.Errorf("log %d has key %d, which it should not", i, key)
			}
			p.version = v
			o.rows[key] = p
			x := Read{Key: key, Slot: p.slot, ID: uint64(len(rs)), Dst: make([]byte, o.bytes)}
			if keys = append(keys, key); len(keys)%3 == 0 {
				x.Key, x.AnyKey = 0, true
			}
			rs = append(rs, x)
		}
		left := len(rs)
		for at := 0; left > 0; {
			at += o.log.Read(rs[at:])
			for _, d := range r.s.Poll().Reads {
				left--
				if d.Err != nil {
					return d.Err
				}
				x := rs[d.ID]
				if x.Key = keys[d.ID]; d.Key != x.Key {
					return fmt.Errorf("log %d: slot %d is said to be key %d's, it is %d's", i, x.Slot, d.Key, x.Key)
				}
				if !bytes.Equal(x.Dst, payload(make([]byte, o.bytes), x.Key, want[i][x.Key])) {
					return fmt.Errorf("log %d: key %d in slot %d is not version %d", i, x.Key, x.Slot, want[i][x.Key])
				}
			}
		}
	}
	return nil
}

// random does n operations on keys below keys.
func (r *rig) random(rng *rand.Rand, n, keys int) error {
	for range n {
		i := rng.IntN(len(r.owners))
		key := uint64(rng.IntN(keys))
		if rng.IntN(2) == 0 {
			key = uint64(rng.IntN(keys/8 + 1)) // hot
		}
		var err error
		switch x := rng.IntN(100); {
		case x < 55:
			err = r.put(i, key)
		case x < 63:
			err = r.del(i, key)
		case x < 85:
			if _, ok := r.owners[i].rows[key]; ok {
				r.read(i, key)
			}
		case x < 87:
			err = r.commit()
		default:
			r.poll()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func memory(t testing.TB, seed uint64, n, block int) (disks []*blk.Memory, devs []blk.Device) {
	for i := range n {
		m := blk.NewMemory(blk.MemoryConfig{Block: block, Seed: seed + uint64(i), Bytes: 1 << 30})
		d, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		disks, devs = append(disks, m), append(devs, d)
	}
	return disks, devs
}

func reopen(t testing.TB, disks []*blk.Memory) (devs []blk.Device) {
	for _, m := range disks {
		d, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		devs = append(devs, d)
	}
	return devs
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.s.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// TestRandom: any sequence of operations, closed and opened again.
func TestRandom(t *testing.T) {
	for _, c := range []struct {
		name    string
		devices int
		block   int
		sizes   []int
		keys    int
		cfg     Config
	}{
		{"one", 1, 512, []int{1000}, 1000, Config{SegmentBytes: 256 << 10}},
		{"four", 4, 512, []int{256, 64, 2000}, 1000, Config{SegmentBytes: 256 << 10}},
		{"4096", 2, 4096, []int{1500, 20}, 1000, Config{SegmentBytes: 256 << 10}},
		{"big rows", 1, 512, []int{9000, 40000}, 100, Config{SegmentBytes: 1 << 20}},
		{"limit", 2, 512, []int{1000}, 1000, Config{SegmentBytes: 256 << 10, Limit: 6 << 20}},
		{"scratch", 2, 512, []int{1000}, 1000, Config{SegmentBytes: 256 << 10, Scratch: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed := seed(t, 0)
			rng := rand.New(rand.NewPCG(seed, 0))
			disks, devs := memory(t, seed, c.devices, c.block)
			r := newRig(t, c.sizes...)
			r.mustOpen(c.cfg, devs...)
			for range 3 {
				if err := r.random(rng, 1500, c.keys); err != nil {
					t.Fatal(err)
				}
				if err := r.commit(); err != nil {
					t.Fatal(err)
				}
				r.settle()
				want := r.snapshot()
				if err := r.verify(want); err != nil {
					t.Fatal(err)
				}
				if c.cfg.Scratch {
					continue
				}
				r.close()
				rec := r.mustOpen(c.cfg, reopen(t, disks)...)
				if rec.Commit != r.acked || len(rec.Warnings) > 0 || !maps.Equal(r.points[rec.Commit][0], want[0]) {
					t.Fatalf("recovered %+v, want commit %d", rec, r.acked)
				}
				if err := r.verify(want); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%+v", r.s.Stats())
			r.close()
		})
	}
}
