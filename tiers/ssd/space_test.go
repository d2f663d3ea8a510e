package ssd

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// overwrite replaces rows at random, n times, hot of 100 of them in a tenth of
// the keys, with commits; it gives how much room that took on average, for each
// byte of rows.
func (r *rig) overwrite(rng *rand.Rand, n, keys, hot int) (room float64) {
	r.t.Helper()
	const every = 1500
	for i := range n {
		key := uint64(rng.IntN(keys))
		if rng.IntN(100) < hot {
			key %= uint64(keys/10 + 1)
		}
		if err := r.put(0, key); err != nil {
			r.t.Fatal(err)
		}
		if i%8 == 0 {
			r.poll()
		}
		if i%every == every-1 {
			if err := r.retry(func() error { _, err := r.s.Commit(nil); return err }); err != nil {
				r.t.Fatal(err)
			}
			st := r.s.Stats()
			room += float64(st.DiskBytes) / float64(st.LiveBytes) * every / float64(n)
		}
	}
	return room
}

// TestAmplification: rows are overwritten twice over, with commits; the
// bytes written are at most 2.5 times the rows', in 1.5 times their room.
func TestAmplification(t *testing.T) {
	for _, c := range []struct {
		name string
		hot  int
	}{{"uniform", 0}, {"hot tenth", 90}} {
		t.Run(c.name, func(t *testing.T) {
			const keys, n = 120000, 120000
			seed := seed(t, 0)
			rng := rand.New(rand.NewPCG(seed, 1))
			_, devs := memory(t, seed, 1, 512)
			r := newRig(t, 256)
			r.mustOpen(Config{SegmentBytes: 256 << 10}, devs...)
			for k := range uint64(keys) {
				if err := r.put(0, k); err != nil {
					t.Fatal(err)
				}
				if k%8 == 0 {
					r.poll()
				}
			}
			r.overwrite(rng, keys, keys, c.hot) // until it is steady
			before := r.s.Stats()
			room := r.overwrite(rng, n, keys, c.hot)
			after := r.s.Stats()
			amp := float64(after.Written-before.Written) / float64(after.Appended-before.Appended)
			t.Logf("writes %.2f x, room %.2f x: %+v", amp, room, after)
			// Of a store this small, of some 170 segments, those that are open or being
			// emptied are a twentieth; of one that is worth it they are nothing.
			if amp > 2.5 || room > 1.6 {
				t.Fatalf("%.2f bytes are written for each of the rows', want at most 2.5, in room for %.2f, want at most 1.6", amp, room)
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
