package ssd

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"psrt/tiers/blk"
)

// Faults survived, all in this file: requests that fail, once or for good, late
// or half done; a full disk; bits that flip on the way or in place; a directory
// that vanishes, is swapped, missing or from another store.

// faultyRig opens a store on disks that fail.
func faultyRig(t testing.TB, seed uint64, n int, cfg Config, sizes ...int) (*rig, []*blk.Memory, []*blk.Faulty) {
	var disks []*blk.Memory
	var faults []*blk.Faulty
	var devs []blk.Device
	for i := range n {
		m := blk.NewMemory(blk.MemoryConfig{Seed: seed + uint64(i), Bytes: 1 << 30})
		d, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		f := blk.NewFaulty(d, seed+uint64(i))
		disks, faults, devs = append(disks, m), append(faults, f), append(devs, f)
	}
	r := newRig(t, sizes...)
	r.mustOpen(cfg, devs...)
	return r, disks, faults
}

var small = Config{SegmentBytes: 256 << 10}

// TestWriteFaults: rows of failed writes are written elsewhere; nothing is lost,
// nobody waits for ever, and what is acknowledged is there.
func TestWriteFaults(t *testing.T) {
	for _, harm := range []blk.Harm{blk.HarmIO, blk.HarmLate, blk.HarmSpace, blk.HarmShort} {
		for _, devices := range []int{1, 3} {
			t.Run(fmt.Sprintf("harm %d, %d devices", harm, devices), func(t *testing.T) {
				seed := seed(t, 0)
				rng := rand.New(rand.NewPCG(seed, 3))
				r, disks, faults := faultyRig(t, seed, devices, small, 1000, 90)
				for _, f := range faults {
					// Two attempts fail at times, and now and then one.
					f.Inject(blk.Fault{Harm: harm, On: []blk.Op{blk.Write}, Name: "data-*", Times: -1, Chance: 0.08})
				}
				for range 6 {
					if err := r.random(rng, 400, 300); err != nil {
						t.Fatal(err)
					}
				}
				fired := 0
				for _, f := range faults {
					fired += f.Fired()
					f.Heal()
				}
				if fired == 0 {
					t.Fatal("no write has failed")
				}
				for again := true; again; again = r.s.commits.durable < r.s.commits.next-1 {
					if err := r.commit(); err != nil {
						t.Fatal(err)
					}
					r.settle()
				}
				want := r.snapshot()
				if err := r.verify(want); err != nil {
					t.Fatal(err)
				}
				t.Logf("%d writes failed, %d commits failed, %d pages given up: %+v", fired, r.commits, badPages(r.s), r.s.Stats())
				r.close()
				rec := r.mustOpen(small, reopen(t, disks)...)
				if rec.Commit != r.acked {
					t.Fatalf("recovered %d, acknowledged %d", rec.Commit, r.acked)
				}
				if err := r.verify(want); err != nil {
					t.Fatal(err)
				}
				r.close()
			})
		}
	}
}

func badPages(s *Store) (n int) {
	for i := range s.segs {
		for _, b := range s.segs[i].bad {
			n += b.count
		}
	}
	return n
}

// fill appends rows 0 to n-1 and commits.
func (r *rig) fill(n int) {
	r.t.Helper()
	for k := range uint64(n) {
		for i := range r.owners {
			if err := r.put(i, k); err != nil {
				r.t.Fatal(err)
			}
		}
		if k%16 == 0 {
			r.poll()
		}
	}
	if err := r.commit(); err != nil {
		r.t.Fatal(err)
	}
	r.settle()
	if r.acked == 0 {
		r.t.Fatal("the commit was not acknowledged")
	}
}

// TestBrokenDevice: one device of two takes no writes any more.
func TestBrokenDevice(t *testing.T) {
	seed := seed(t, 0)
	r, _, faults := faultyRig(t, seed, 2, small, 500)
	r.fill(300)
	faults[1].Inject(blk.Fault{Harm: blk.HarmIO, On: []blk.Op{blk.Write}, Name: "data-*", Times: -1})
	for k := range uint64(900) {
		if err := r.put(0, k); err != nil {
			t.Fatal(err)
		}
		r.poll()
	}
	for range 6 {
		if err := r.commit(); err != nil {
			t.Fatal(err)
		}
		r.settle()
	}
	if r.s.commits.durable+1 != r.s.commits.next {
		t.Fatal("commits still fail, although one device is well")
	}
	if err := r.verify(r.snapshot()); err != nil {
		t.Fatal(err)
	}
	r.close()
}

// TestSyncFault: after a failed sync nothing more is promised, and the store says
// so; what was committed before is found again.
func TestSyncFault(t *testing.T) {
	for _, name := range []string{"data-*", "manifest-*"} {
		t.Run(name, func(t *testing.T) {
			r, disks, faults := faultyRig(t, seed(t, 0), 2, small, 500)
			r.fill(200)
			want, acked := r.snapshot(), r.acked
			faults[0].Inject(blk.Fault{Harm: blk.HarmIO, On: []blk.Op{blk.Sync}, Name: name, Times: -1})
			for k := range uint64(200) {
				if err := r.put(0, k); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.commit(); err != nil {
				t.Fatal(err)
			}
			r.settle()
			if r.acked != acked || !errors.Is(r.s.Err(), ErrFailed) || !errors.Is(r.s.Err(), blk.ErrIO) {
				t.Fatalf("acknowledged %d, then %d; %v", acked, r.acked, r.s.Err())
			}
			if _, err := r.owners[0].log.Append(1, make([]byte, 500)); !errors.Is(err, ErrFailed) {
				t.Fatalf("a store that has failed takes rows: %v", err)
			}
			if _, err := r.s.Commit(nil); !errors.Is(err, ErrFailed) {
				t.Fatalf("a store that has failed commits: %v", err)
			}
			_ = r.s.Close()
			for _, m := range disks {
				m.Crash(1)
			}
			rec := r.mustOpen(small, reopen(t, disks)...)
			if rec.Commit == acked {
				if err := r.verify(want); err != nil {
					t.Fatal(err)
				}
			} else if err := r.verify(r.points[rec.Commit]); err != nil {
				t.Fatal(err)
			}
			r.close()
		})
	}
}

// readAll gives the error of each row that cannot be read; the others are right.
func (r *rig) readAll(i int) map[uint64]error {
	o := r.owners[i]
	bad := map[uint64]error{}
	var rs []Read
	for key, p := range o.rows {
		rs = append(rs, Read{Key: key, Slot: p.slot, ID: uint64(len(rs)), Dst: make([]byte, o.bytes)})
	}
	for at, left := 0, len(rs); left > 0; {
		at += o.log.Read(rs[at:])
		for _, d := range r.s.Poll().Reads {
			left--
			x := rs[d.ID]
			if d.Err != nil {
				bad[x.Key] = d.Err
			} else if v := o.rows[x.Key].version; !bytes.Equal(x.Dst, payload(make([]byte, o.bytes), x.Key, v)) {
				r.t.Fatalf("key %d reads without an error, and is not version %d", x.Key, v)
			}
		}
	}
	return bad
}

// TestReadFaults: a read that fails concerns the rows in it and no others, and
// names the file and the place.
func TestReadFaults(t *testing.T) {
	for _, harm := range []blk.Harm{blk.HarmIO, blk.HarmShort, blk.HarmFlip} {
		seed := seed(t, 0)
		r, _, faults := faultyRig(t, seed, 2, small, 100)
		r.fill(2000)
		faults[0].Inject(blk.Fault{Harm: harm, On: []blk.Op{blk.Read}, Name: "data-*", Skip: 3, Times: 20})
		bad := r.readAll(0)
		if faults[0].Fired() == 0 {
			t.Fatal("no read has failed")
		}
		if len(bad) == 0 || len(bad) > 200 {
			t.Fatalf("harm %d: %d of 2000 rows failed", harm, len(bad))
		}
		for _, err := range bad {
			if !errors.Is(err, blk.ErrIO) && !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "data-") {
				t.Fatalf("harm %d: %v", harm, err)
			}
		}
		faults[0].Heal()
		if bad := r.readAll(0); len(bad) > 0 {
			t.Fatalf("%d rows still fail: %v", len(bad), bad)
		}
		r.close()
	}
}

// TestGoneDirectory: rows on the other device are still read; commits and the
// rows on the lost one fail, by name.
func TestGoneDirectory(t *testing.T) {
	r, disks, faults := faultyRig(t, seed(t, 0), 2, small, 500)
	r.fill(1000)
	acked := r.acked
	want := r.snapshot()
	faults[1].Inject(blk.Fault{Harm: blk.HarmGone})
	bad := r.readAll(0)
	if len(bad) == 0 || len(bad) == 1000 {
		t.Fatalf("%d of 1000 rows fail", len(bad))
	}
	for k := range uint64(400) {
		if err := r.put(0, k); err != nil && !errors.Is(err, ErrFailed) {
			t.Fatal(err)
		}
	}
	for range 5 {
		if err := r.commit(); err != nil {
			break
		}
		r.settle()
	}
	if r.acked != acked || r.s.Err() == nil {
		t.Fatalf("commit %d was acknowledged without the device: %v", r.acked, r.s.Err())
	}
	_ = r.s.Close()
	rec := r.mustOpen(small, reopen(t, disks)...)
	if rec.Commit != acked {
		t.Fatalf("recovered %d, want %d", rec.Commit, acked)
	}
	if err := r.verify(want); err != nil {
		t.Fatal(err)
	}
	r.close()
}

// TestOtherDirectories: what is given is not the store that was made.
func TestOtherDirectories(t *testing.T) {
	seed := seed(t, 0)
	made := func(n int) []*blk.Memory {
		disks, devs := memory(t, seed, n, 512)
		r := newRig(t, 100)
		r.mustOpen(small, devs...)
		r.fill(50)
		r.close()
		return disks
	}
	a, b := made(3), made(3)
	empty := blk.NewMemory(blk.MemoryConfig{Bytes: 1 << 28})
	for _, c := range []struct {
		name  string
		disks []*blk.Memory
		says  string // empty: it opens
	}{
		{"the same", []*blk.Memory{a[0], a[1], a[2]}, ""},
		{"another order", []*blk.Memory{a[2], a[0], a[1]}, ""},
		{"one missing", []*blk.Memory{a[0], a[1]}, "of 3, but 2 directories were given"},
		{"without the manifest", []*blk.Memory{a[2]}, "of 3, but 1 directories were given"},
		{"one replaced", []*blk.Memory{a[0], a[1], empty}, "holds no store"},
		{"one of another store", []*blk.Memory{a[0], b[1], a[2]}, "belongs to store"},
		{"one twice", []*blk.Memory{a[0], a[1], a[1].Crashed(1)}, "is a copy"},
		{"one more", []*blk.Memory{a[0], a[1], a[2], empty}, "of 3, but 4 directories were given"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 100)
			_, err := r.open(small, reopen(t, c.disks)...)
			if c.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				if len(r.owners[0].rows) != 50 {
					t.Fatalf("%d rows", len(r.owners[0].rows))
				}
				r.close()
				return
			}
			if err == nil || !errors.Is(err, ErrStore) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q", err, c.says)
			}
		})
	}
}
