package ssd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"psrt/tiers/blk"
)

// Faults survived, all in this file: the power is cut, or the process killed, at
// any step of any device; of what was not synced every block is, by a seed, as
// before or as any write left it.

// times is how often a long test does what it does: env, or what CI has time for.
func times(t testing.TB, env string, ci int) int {
	if s := os.Getenv(env); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s=%q: %v", env, s, err)
		}
		return n
	}
	if testing.Short() {
		return max(1, ci/2)
	}
	return ci
}

// crashRig is a rig whose disks can be looked at, as a crash would leave them,
// at every step.
type crashRig struct {
	*rig
	disks []*blk.Memory
	cfg   Config
	step  int
	rng   *rand.Rand
	every int
	seen  int // crashes looked at
	older int // of them those not at the last acknowledged commit
	fail  error
	sizes []int
}

func newCrashRig(t testing.TB, seed uint64, devices, block, every int, cfg Config, sizes ...int) *crashRig {
	c := &crashRig{rig: newRig(t, sizes...), cfg: cfg, every: every, rng: rand.New(rand.NewPCG(seed, 7)), sizes: sizes}
	for i := range devices {
		c.disks = append(c.disks, blk.NewMemory(blk.MemoryConfig{Block: block, Seed: seed + uint64(i), Bytes: 1 << 30, Step: c.check}))
	}
	return c
}

// check looks at what a crash here would leave.
func (c *crashRig) check() {
	c.step++
	if c.fail != nil || c.every == 0 || c.rng.IntN(c.every) > 0 {
		return
	}
	c.seen++
	seed := c.rng.Uint64()
	if err := c.after(seed); err != nil {
		c.fail = fmt.Errorf("crash %d, at step %d: %w", c.seen, c.step, err)
	}
}

// after opens what a crash leaves, holds it against the commit point that it says
// it is, works on, and opens it once more.
func (c *crashRig) after(seed uint64) error {
	var disks []*blk.Memory
	var devs []blk.Device
	for _, m := range c.disks {
		x := m.Crashed(seed)
		disks = append(disks, x)
		d, err := x.Open()
		if err != nil {
			return err
		}
		devs = append(devs, d)
	}
	r := newRig(c.t, c.sizes...)
	rec, err := r.open(c.cfg, devs...)
	if err != nil {
		return err
	}
	want, ok := c.points[rec.Commit]
	if !ok || rec.Commit < c.acked {
		return fmt.Errorf("recovered commit %d, acknowledged was %d", rec.Commit, c.acked)
	}
	if rec.Commit > c.acked {
		c.older++
	}
	if err := r.verify(want); err != nil {
		return fmt.Errorf("after commit %d: %w", rec.Commit, err)
	}
	if c.rng.IntN(4) > 0 {
		return r.s.Close()
	}
	r.acked = rec.Commit
	r.version = 1 << 40
	if err := r.random(c.rng, 100, 200); err != nil {
		return fmt.Errorf("working on after a crash: %w", err)
	}
	if err := r.commit(); err != nil {
		return err
	}
	r.settle()
	want = r.snapshot()
	for _, m := range disks {
		m.Crash(seed)
	}
	_ = r.s.Close() // on dead devices
	q := newRig(c.t, c.sizes...)
	if rec, err = q.open(c.cfg, reopen(c.t, disks)...); err != nil {
		return err
	}
	if rec.Commit != r.acked {
		return fmt.Errorf("second crash: recovered commit %d, acknowledged was %d", rec.Commit, r.acked)
	}
	if err := q.verify(want); err != nil {
		return fmt.Errorf("second crash: %w", err)
	}
	return q.s.Close()
}

// TestCrash cuts the power at steps of a run with commits, deletions, resets and
// compaction.
func TestCrash(t *testing.T) {
	every := 32
	if testing.Short() {
		every = 64
	}
	for _, c := range []struct {
		name           string
		devices, block int
		sizes          []int
		cfg            Config
		keys           int
	}{
		{"one device", 1, 512, []int{2000}, Config{SegmentBytes: 256 << 10}, 200},
		{"three devices", 3, 512, []int{3000, 60}, Config{SegmentBytes: 256 << 10, Limit: 7 << 20}, 300},
		{"4096", 2, 4096, []int{3000}, Config{SegmentBytes: 256 << 10}, 200},
		{"limit", 1, 512, []int{3000}, Config{SegmentBytes: 256 << 10, Limit: 3 << 20}, 200},
	} {
		for _, fixed := range []uint64{1, 0} {
			t.Run(fmt.Sprintf("%s/%d", c.name, fixed), func(t *testing.T) {
				for range times(t, "PSRT_SSD_RUNS", 1) {
					seed := seed(t, fixed)
					crashRun(t, newCrashRig(t, seed, c.devices, c.block, every, c.cfg, c.sizes...), c.keys)
				}
			})
		}
	}
}

func crashRun(t *testing.T, c *crashRig, keys int) {
	var devs []blk.Device
	for _, m := range c.disks {
		d, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		devs = append(devs, d)
	}
	c.mustOpen(c.cfg, devs...)
	for i := range 8 {
		if err := c.random(c.rng, 300, keys); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			if err := c.owners[0].log.Reset(); err != nil {
				t.Fatal(err)
			}
			c.owners[0].rows = map[uint64]place{}
		}
		if c.fail != nil {
			t.Fatal(c.fail)
		}
	}
	if err := c.commit(); err != nil {
		t.Fatal(err)
	}
	c.settle()
	if c.fail != nil {
		t.Fatal(c.fail)
	}
	st := c.s.Stats()
	if c.seen < 8 || st.Commits == 0 {
		t.Fatalf("only %d crashes in %d steps: %+v", c.seen, c.step, st)
	}
	t.Logf("%d steps, %d crashes, %d of them ahead of the last acknowledged commit; %d segments compacted, %d rows copied", c.step, c.seen, c.older, st.Compacted, st.CopiedRows)
	c.close()
}

// TestCrashWhileOpening cuts the power at every step of making and opening a
// store.
func TestCrashWhileOpening(t *testing.T) {
	seed := seed(t, 0)
	for _, devices := range []int{1, 3} {
		made := false
		for at := 1; ; at++ {
			step, hit := 0, false
			var disks []*blk.Memory
			for i := range devices {
				disks = append(disks, blk.NewMemory(blk.MemoryConfig{Seed: seed + uint64(at+i), Bytes: 1 << 30, Step: func() {
					if step++; step == at && !hit {
						hit = true
						for _, m := range disks {
							m.Crash(seed + uint64(at))
						}
					}
				}}))
			}
			r := newRig(t, 100)
			cfg := Config{SegmentBytes: 256 << 10}
			if made {
				// This time a store with rows is opened.
				at0 := at
				at = 0
				r.mustOpen(cfg, reopen(t, disks)...)
				for k := range uint64(50) {
					if err := r.put(0, k); err != nil {
						t.Fatal(err)
					}
				}
				if err := r.commit(); err != nil {
					t.Fatal(err)
				}
				r.settle()
				r.close()
				step, at = 0, at0
			}
			_, err := r.open(cfg, reopen(t, disks)...)
			if err == nil {
				r.close()
			} else if !errors.Is(err, blk.ErrCrashed) {
				t.Fatalf("step %d: %v", at, err)
			}
			at0 := at
			at = 0
			want := r.points[r.acked]
			rec, err := r.open(cfg, reopen(t, disks)...)
			if err != nil {
				t.Fatalf("%d devices, after a crash at step %d: %v", devices, at0, err)
			}
			if rec.Commit != r.acked {
				t.Fatalf("after a crash at step %d: commit %d, want %d", at0, rec.Commit, r.acked)
			}
			if err := r.verify(want); err != nil {
				t.Fatalf("after a crash at step %d: %v", at0, err)
			}
			r.close()
			at = at0
			if !hit {
				if made {
					break
				}
				made, at = true, 0
			}
		}
	}
}
