package ssd

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// commitEvery is how many rows are overwritten between two commits.
const commitEvery = 1500

// overwrite replaces rows, n times, each drawn by draw, with commits where the
// store has any; it gives how much room that took on average, for each byte of
// rows.
func (r *rig) overwrite(n int, draw func() uint64) (room float64) {
	r.t.Helper()
	for i := range n {
		if err := r.put(0, draw()); err != nil {
			r.t.Fatal(err)
		}
		if i%8 == 0 {
			r.poll()
		}
		if i%commitEvery == commitEvery-1 {
			if err := r.retry(func() error { _, err := r.s.Commit(nil); return err }); err != nil {
				r.t.Fatal(err)
			}
			st := r.s.Stats()
			room += float64(st.DiskBytes) / float64(st.LiveBytes) * commitEvery / float64(n)
		}
	}
	return room
}

// TestAmplification: rows are overwritten twice over, with compaction running;
// the bytes written are at most 2.5 times the rows', in 1.5 times their room. A
// store that is kept also holds what was overwritten since the last commit
// that is durable, and what the next one has overwritten by then.
func TestAmplification(t *testing.T) {
	const keys = 120000
	uniform := func(rng *rand.Rand) func() uint64 {
		return func() uint64 { return rng.Uint64N(keys) }
	}
	zipf := func(rng *rand.Rand) func() uint64 {
		z := rand.NewZipf(rng, 1.01, 1, keys-1)
		return func() uint64 { return z.Uint64() * 0x9E3779B1 % keys } // neighbours in rank are not neighbours on disk
	}
	hot := func(rng *rand.Rand) func() uint64 {
		return func() uint64 {
			if rng.IntN(10) > 0 {
				return rng.Uint64N(keys / 10)
			}
			return rng.Uint64N(keys)
		}
	}
	for _, c := range []struct {
		name    string
		draw    func(*rand.Rand) func() uint64
		scratch bool
	}{
		{"uniform", uniform, false}, {"zipf", zipf, false}, {"hot tenth", hot, false},
		{"uniform, scratch", uniform, true}, {"zipf, scratch", zipf, true},
	} {
		if testing.Short() && c.scratch {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			seed := seed(t, 0)
			rng := rand.New(rand.NewPCG(seed, 1))
			draw := c.draw(rng)
			_, devs := memory(t, seed, 1, 512)
			r := newRig(t, 256)
			r.mustOpen(Config{SegmentBytes: 256 << 10, Scratch: c.scratch}, devs...)
			for k := range uint64(keys) {
				if err := r.put(0, k); err != nil {
					t.Fatal(err)
				}
				if k%8 == 0 {
					r.poll()
				}
			}
			r.overwrite(keys, draw) // until it is steady
			before := r.s.Stats()
			room := r.overwrite(keys, draw)
			after := r.s.Stats()
			amp := float64(after.Written-before.Written) / float64(after.Appended-before.Appended)
			t.Logf("writes %.2f x, room %.2f x: %+v", amp, room, after)
			bound := 1.5
			if !c.scratch {
				bound += 2. * commitEvery / keys
			}
			if amp > 2.5 || room > bound {
				t.Fatalf("%.2f bytes are written for each of the rows', want at most 2.5, in room for %.3f, want at most %.3f", amp, room, bound)
			}
			for k := range uint64(keys) {
				if rng.IntN(20) == 0 {
					r.read(0, k)
				}
			}
			for len(r.reads) > 0 {
				r.poll()
			}
			r.close()
		})
	}
}

// TestFull: the limit holds, the error says what to do, and doing that helps.
func TestFull(t *testing.T) {
	const limit = 8 << 20
	disks, devs := memory(t, seed(t, 0), 1, 512)
	r := newRig(t, 1000)
	r.mustOpen(Config{SegmentBytes: 256 << 10, Limit: limit}, devs...)
	var full *FullError
	n := uint64(0)
	for ; full == nil; n++ {
		r.version++
		slot := NoSlot
		err := r.retry1(func() (err error) {
			slot, err = r.owners[0].log.Append(n, payload(make([]byte, 1000), n, r.version))
			return err
		})
		if errors.As(err, &full) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		r.owners[0].rows[n] = place{slot, r.version}
	}
	if full.Limit != limit || full.Used > limit || full.Live < limit/2 || full.Live > full.Used || full.Cause != nil {
		t.Fatalf("%+v", full)
	}
	t.Log(full)
	room := int64(0)
	for _, name := range disks[0].Names() {
		room += disks[0].Size(name)
	}
	if room > limit {
		t.Fatalf("files of %d bytes, the limit is %d", room, limit)
	}
	// Everything overwritten needs a commit; deleting half makes room for as much.
	for k := range n / 2 {
		o := r.owners[0]
		o.log.Free(o.rows[k].slot)
		delete(o.rows, k)
	}
	var again *FullError
	if err := r.retry1(func() error { _, err := r.owners[0].log.Append(n, make([]byte, 1000)); return err }); !errors.As(err, &again) || again.Uncommitted == 0 {
		t.Fatalf("what no commit covers was given away: %v", err)
	}
	t.Log(again)
	if err := r.commit(); err != nil {
		t.Fatal(err)
	}
	r.settle()
	for k := range n / 4 {
		if err := r.put(0, n+k); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.verify(r.snapshot()); err != nil {
		t.Fatal(err)
	}
	r.close()
}

// retry1 is retry without commits.
func (r *rig) retry1(f func() error) error {
	for {
		if err := f(); !errors.Is(err, ErrBusy) {
			return err
		}
		r.poll()
	}
}
