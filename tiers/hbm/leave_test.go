package hbm_test

import (
	"fmt"
	"slices"
	"testing"

	"psrt/csrc/probe"
	"psrt/tiers"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/hbmtest"
	"psrt/tiers/table"
)

// counted is the twin, which counts calls, and how often somebody waits for the newest: the others have had
// time.
type counted struct {
	hbm.Host
	in, out, prompt int
	made            hbm.Fence
}

func (d *counted) Open(acc *accessor.Accessor, index *probe.Bounded, rows, batchRows int) (hbm.Arena, error) {
	a, err := d.Host.Open(acc, index, rows, batchRows)
	return &countedArena{a, d}, err
}

type countedArena struct {
	hbm.Arena
	d *counted
}

func (a *countedArena) call(hbm.Fence) hbm.Fence {
	a.d.made++
	return a.d.made
}

func (a *countedArena) CopyIn(slots []uint32, rows []float32) hbm.Fence {
	a.d.in++
	return a.call(a.Arena.CopyIn(slots, rows))
}

func (a *countedArena) CopyOut(slots []uint32, rows []float32) hbm.Fence {
	a.d.out++
	return a.call(a.Arena.CopyOut(slots, rows))
}

func (a *countedArena) Gather(slots []uint32, dst []float32, step int) hbm.Fence {
	return a.call(a.Arena.Gather(slots, dst, step))
}

func (a *countedArena) Find(keys []uint64, slots []uint32, dst []float32, step int) hbm.Fence {
	return a.call(a.Arena.Find(keys, slots, dst, step))
}

func (a *countedArena) Update(slots []uint32, grads []float32, refused *int) hbm.Fence {
	return a.call(a.Arena.Update(slots, grads, refused))
}

func (a *countedArena) Wait(f hbm.Fence) error {
	if f != 0 && f == a.d.made {
		a.d.prompt++
	}
	return nil
}

// TestStepWaits: a step of whose rows a tenth are brought ahead, in the place of changed ones, makes one copy
// out and one in, and never waits for what has just been asked for but for its own lookup and update, as one
// whose rows are all there.
func TestStepWaits(t *testing.T) {
	const n, fresh, steps, cold = 8192, 820, 12, 14
	d := &counted{Host: hbm.Host{Node: -1}}
	c := open(t, hbm.Config{Device: d, MaxBytes: 3 * n * 64, BatchRows: n, Node: -1})
	want, err := tiers.NewMemory(spec, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	into, exact, grads := make([]float32, n*spec.Dim), make([]float32, n*spec.Dim), make([]float32, n*spec.Dim)
	for i := range grads {
		grads[i] = float32(i%5) / 8
	}
	work := func(keys []uint64) {
		l := &tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: true, Into: into}
		w := &tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: true}
		if !want.Start(w) || !c.Start(l) || l.Err != nil || w.Err != nil {
			t.Fatalf("a lookup in memory: %v, %v", l.Err, w.Err)
		}
		if !l.Gathered {
			c.Gather(l.Rows, into)
		}
		if want.Gather(w.Rows, exact); !slices.Equal(into, exact) {
			t.Fatal("other weights than without a device")
		}
		c.Apply(l.Rows, grads)
		want.Apply(w.Rows, grads)
		c.Release(l.Rows)
		want.Release(w.Rows)
	}
	for at := range cold {
		work(keysFrom(at*n, n))
	}
	misses := func(step int) []uint64 { return append(keysFrom(n+step*fresh, fresh), keysFrom(fresh, n-fresh)...) }
	hits := func(int) []uint64 { return keysFrom(0, n) }
	var per [2]counted // a step
	batch := uint64(0)
	for kind, keysOf := range []func(int) []uint64{hits, misses} {
		c.Announce(batch, keysOf(0))
		for step := range steps {
			before, missed := *d, c.Stats().Device.Misses
			c.Announce(batch+1, keysOf(step+1))
			work(keysOf(step))
			batch++
			c.Passed(batch)
			if step > 2 {
				per[kind] = counted{in: d.in - before.in, out: d.out - before.out, prompt: d.prompt - before.prompt}
				if n := c.Stats().Device.Misses - missed; n > 0 {
					t.Errorf("step %d of kind %d: %d rows were not there", step, kind, n)
				}
				if wanted := (counted{in: kind, out: kind, prompt: 2}); per[kind] != wanted {
					t.Errorf("step %d of kind %d has %+v copies and waits, want %+v", step, kind, per[kind], wanted)
				}
			}
		}
		batch++
		c.Passed(batch)
	}
	if d := c.Stats().Device; d.PutBack < steps*fresh || d.CopiedAhead < steps*fresh {
		t.Errorf("stats %+v", d)
	}
	a, err := c.Digest()
	if b, wrong := want.Digest(); err != nil || wrong != nil || a != b {
		t.Errorf("digest %v, without a device %v: %v, %v", a, b, err, wrong)
	}
}

// TestBetween: whatever comes while rows are on their way out sees them as they are, and so does what comes
// after it, on a device that fails at any call, too.
func TestBetween(t *testing.T) {
	leaving := keysFrom(0, 100)
	between := map[string]func(b *beside){
		"nothing":     func(*beside) {},
		"a poll":      func(b *beside) { b.c.Poll() },
		"batches":     func(b *beside) { b.c.Passed(1) },
		"a lookup":    func(b *beside) { b.work(leaving, false) },
		"a push":      func(b *beside) { b.work(leaving[:50], true) },
		"misses":      func(b *beside) { b.work(keysFrom(500, 90), true) },
		"what comes":  func(b *beside) { b.work(keysFrom(300, 100), true) },
		"all at once": func(b *beside) { b.work(keysFrom(0, 300), true) },
		"a digest":    func(b *beside) { b.same() },
		"a delta": func(b *beside) {
			b.each(func(r tiers.Rows) error { return r.Cut(true) })
			b.work(leaving[20:70], true)
			b.each(func(r tiers.Rows) error {
				for more, n := true, 0; more; n++ {
					var err error
					if more, err = r.Next(1000, func(uint64, []float32, bool) error { return nil }); err != nil || n > 1000 {
						return fmt.Errorf("rows of a cut: %w", err)
					}
				}
				r.CutDone(true)
				return nil
			})
		},
		"deletions": func(b *beside) {
			b.each(func(r tiers.Rows) error {
				n, err := r.Delete(leaving[10:30])
				if n != 20 {
					return fmt.Errorf("%d rows deleted: %w", n, err)
				}
				return err
			})
		},
		"a row set": func(b *beside) {
			row := make([]float32, spec.RowFloats())
			row[0] = 7
			b.each(func(r tiers.Rows) error { return r.Load(5, row) })
		},
		"a sweep": func(b *beside) {
			b.each(func(r tiers.Rows) error {
				n := 0
				for more := true; more; {
					some, again, err := r.Sweep(1000, func(key uint64, _ []float32) bool { return key%3 == 0 && key < 100 })
					if err != nil {
						return err
					}
					n, more = n+some, again
				}
				if n != 34 {
					return fmt.Errorf("%d rows swept", n)
				}
				return nil
			})
		},
		"the end of all rows": func(b *beside) { b.each(tiers.Rows.Reset) },
	}
	for what, do := range between {
		t.Run(what, func(t *testing.T) {
			failed := 0
			for after := range 36 {
				for _, busy := range []bool{false, true} {
					if after > 0 && busy != (after%3 == 0) {
						continue
					}
					fails := 0
					if after > 0 {
						fails = after + 30 // all before it is about rows that come
					}
					b := newBeside(t, fails)
					for at := range 9 {
						b.work(keysFrom(100*(at%6), 100), true)
					}
					b.below.busy = busy
					b.c.Announce(1, keysFrom(300, 100))
					if n := b.c.Stats().Device.BytesOut; fails == 0 && n != 700*64 {
						t.Fatalf("%d bytes have been copied out, the last 6400 not as a batch's rows that make room", n)
					}
					if b.below.busy = false; what != "nothing" {
						do(b)
					}
					b.c.Passed(1)
					b.work(keysFrom(300, 100), true)
					b.work(leaving, true)
					b.work(keysFrom(200, 100), false)
					b.same()
					if b.c.Stats().Device.Failed != "" {
						failed++
					}
				}
			}
			if failed == 0 {
				t.Error("no device has failed: the test tests nothing of that")
			}
		})
	}
}

// TestNowhere: where fewer rows may go than are to come, as many come; those that are nowhere yet are not sought
// for ever.
func TestNowhere(t *testing.T) {
	b := newBeside(t, 0)
	for at := range 6 {
		b.work(keysFrom(100*at, 100), true)
	}
	b.work(keysFrom(0, 100), true)
	b.work(keysFrom(100, 100), true)
	held := look(t, b.c, keysFrom(200, 100)) // none of which can go
	for round, keys := range [][]uint64{keysFrom(1000, 100), keysFrom(300, 100)} {
		b.c.Announce(uint64(round), append(keysFrom(0, 160), keys...)) // in the place of 40 others
		for range 5 {
			b.c.Poll()
		}
		if n := b.c.Stats().Device.CopiedAhead; n != uint64(40*round) {
			t.Errorf("%d rows came in round %d", n, round)
		}
		b.c.Passed(uint64(round) + 1)
	}
	b.c.Release(held.Rows)
	b.same()
}

// beside is a table with a device and one without.
type beside struct {
	t     *testing.T
	c     *hbm.Cache
	want  *tiers.Memory
	below *taking
	late  *hbmtest.Late
}

// taking is memory that may take no rows for a while.
type taking struct {
	*tiers.Memory
	busy bool
}

func (m *taking) Put(keys []uint64, rows []float32) (int, error) {
	if m.busy {
		return 0, tiers.ErrBusy
	}
	return m.Memory.Put(keys, rows)
}

func newBeside(t *testing.T, failAfter int) *beside {
	t.Helper()
	b := &beside{t: t, late: &hbmtest.Late{FailAfter: failAfter}}
	memory := func() *tiers.Memory {
		m, err := tiers.NewMemory(spec, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	b.want, b.below = memory(), &taking{Memory: memory()}
	var err error
	cfg := hbm.Config{Device: b.late, MaxBytes: 300 * 64, BatchRows: 100, Node: -1, Journal: int64(2000 * 4 * (spec.PushFloats() + 1))}
	if b.c, err = hbm.New(b.below, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, r := range []tiers.Rows{b.want, b.c} {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return b
}

func (b *beside) each(do func(r tiers.Rows) error) {
	b.t.Helper()
	for _, r := range []tiers.Rows{b.want, b.c} {
		if err := do(r); err != nil {
			b.t.Fatalf("failing after %d calls: %v", b.late.FailAfter, err)
		}
	}
}

// work looks rows up and pushes to them.
func (b *beside) work(keys []uint64, push bool) {
	b.t.Helper()
	var got [2][]float32
	grads := make([]float32, len(keys)*spec.PushFloats())
	for i := range grads {
		grads[i] = float32(i%7) / 4
	}
	at := 0
	b.each(func(r tiers.Rows) error {
		l := &tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: true}
		for done := r.Start(l); !done; {
			done = slices.Contains(r.Poll(), l)
		}
		if l.Err != nil {
			return l.Err
		}
		got[at] = make([]float32, len(keys)*spec.Dim)
		r.Gather(l.Rows, got[at])
		if at++; push {
			r.Apply(l.Rows, grads)
		}
		r.Release(l.Rows)
		return nil
	})
	if !slices.Equal(got[0], got[1]) {
		b.t.Fatalf("failing after %d calls: other weights than without a device", b.late.FailAfter)
	}
}

// same holds all rows against those of the table without a device.
func (b *beside) same() {
	b.t.Helper()
	var sums []table.Digest
	b.each(func(r tiers.Rows) error {
		sum, err := r.Digest()
		sums = append(sums, sum)
		return err
	})
	if sums[0] != sums[1] {
		b.t.Fatalf("failing after %d calls: digest %v, want %v", b.late.FailAfter, sums[1], sums[0])
	}
}
