package kv

import (
	"math"
	"testing"
	"time"

	"psrt/sched/server"
)

// Memory that all servers reach: values come and gradients go without a copy where
// the keys are planned, and are right where they are not.
func TestLentMemory(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		w := newWorld(t, shape{transport: tr, servers: 2, lanes: 2, workers: 1, staleness: server.Async})
		c := w.open(0, counting("t", 3))
		tab := w.table(c, "t")
		m, err := c.Alloc(1 << 16)
		must(t, err)
		keys := []uint64{50, 7, 7, 1 << 60, 12, math.MaxUint64, 0, 50}
		unique, index := make([]uint64, len(keys)), make([]int32, len(keys))
		n, err := tab.Plan(keys, unique, index)
		must(t, err)
		if n != 6 {
			t.Fatalf("%d unique keys, want 6", n)
		}
		for i, k := range keys {
			if unique[index[i]] != k {
				t.Fatalf("key %d is at %d, which is %d", k, index[i], unique[index[i]])
			}
		}
		values := floats(m)[10 : 10+n*3]
		grads := floats(m)[1000 : 1000+n*3]
		for i := range grads {
			grads[i] = float32(i)
		}
		number, err := tab.PullTicket(unique[:n], values, Options{})
		must(t, err)
		must(t, tab.PushTicket(number, n, grads, Options{}))
		must(t, tab.Push(unique[:n], grads, Options{}))
		must(t, tab.Pull(unique[:n], values, Options{}))
		for i := range values {
			if values[i] != -2*grads[i] {
				t.Fatalf("value %d is %v, want %v", i, values[i], -2*grads[i])
			}
		}
		if c.stats.Direct != 4 {
			t.Errorf("%d calls without a copy, want 4", c.stats.Direct)
		}
		all := floats(m)[2000 : 2000+len(keys)*3] // not in the servers' order
		must(t, tab.Pull(keys, all, Options{}))
		for i := range keys {
			for e := range 3 {
				if all[i*3+e] != values[int(index[i])*3+e] {
					t.Fatalf("key %d: %v", keys[i], all[i*3:i*3+3])
				}
			}
		}
		wantCode(t, c.CheckRange(m.first+1<<16-8, 12), Invalid, "leave the registered memory")
		if !c.IsDirect(m.first+8, 100) || c.IsDirect(m.first, 1<<16+1) {
			t.Error("IsDirect is wrong")
		}
		must(t, c.Unregister(m))
		wantCode(t, c.Unregister(m), Invalid)
	})
}

// Rows and the dense vector in lent memory are copied by nobody here; from and to
// other memory once.
func TestCopies(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		const n, dim, floats4 = 300, 8, 5000
		w := newWorld(t, shape{transport: tr, servers: 2, lanes: 1, workers: 1, staleness: server.Async, dense: floats4})
		c := w.open(0, counting("t", dim))
		tab := w.table(c, "t")
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = uint64(i)*0x9e3779b97f4a7c15 + 1
		}
		u, err := tab.Plan(keys, keys, nil)
		must(t, err)
		keys = keys[:u]
		lent, err := c.Alloc((u*dim + floats4) * 4)
		must(t, err)
		for _, k := range []struct {
			what   string
			memory []float32
			times  uint64
		}{{"lent", floats(lent), 0}, {"other", make([]float32, u*dim+floats4), 1}} {
			rows, vector := k.memory[:u*dim], k.memory[u*dim:]
			for _, x := range []struct {
				what  string
				bytes int
				do    func() error
			}{
				{"pull", len(rows), func() error { return tab.Pull(keys, rows, Options{}) }},
				{"push", len(rows), func() error { return tab.Push(keys, rows, Options{}) }},
				{"dense pull", floats4, func() error { return c.PullDense(vector, Options{}) }},
				{"dense push", floats4, func() error { return c.PushDense(vector, Options{}) }},
			} {
				was := c.copied.Load()
				must(t, x.do())
				if got, want := c.copied.Load()-was, k.times*uint64(x.bytes)*4; got != want {
					t.Errorf("%s, %s memory: %d bytes were copied, want %d", x.what, k.what, got, want)
				}
			}
		}
		must(t, c.Unregister(lent))
	})
}

// A dense push leaves from where the gradients lie, and the memory can be taken
// back when it is done.
func TestDenseFromLentMemory(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		const n = 40_000
		w := newWorld(t, shape{transport: tr, servers: 2, lanes: 2, workers: 1, staleness: server.Async, dense: n})
		c := w.open(0)
		m, err := c.Alloc(n*4 + 4096)
		must(t, err)
		grads, values := floats(m)[5:5+n], make([]float32, n)
		for round := range 20 {
			for i := range grads {
				grads[i] = float32(i%100 + round)
			}
			r, err := c.PushDenseAsync(grads, Options{}, nil)
			must(t, err)
			<-r.Done()
			must(t, r.Err())
			clear(grads) // the servers have it
			must(t, c.PullDense(values, Options{}))
			for i, v := range values {
				if want := -float32((round+1)*(i%100) + round*(round+1)/2); v != want {
					t.Fatalf("round %d: value %d is %v, want %v", round, i, v, want)
				}
			}
		}
		must(t, c.Unregister(m))
	})
}

// A dense pull to lent memory lands there without a copy, at any place in it.
func TestDenseToLentMemory(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		const n = 40_000
		w := newWorld(t, shape{transport: tr, servers: 2, lanes: 1, workers: 1, staleness: server.Async, dense: n})
		c := w.open(0)
		m, err := c.Alloc(n*4 + 4096)
		must(t, err)
		grads := make([]float32, n)
		for i := range grads {
			grads[i] = float32(i % 1000)
		}
		must(t, c.PushDense(grads, Options{}))
		values := floats(m)[7 : 7+n]
		for range 2 {
			must(t, c.PullDense(values, Options{}))
			for i, v := range values {
				if v != -grads[i] {
					t.Fatalf("value %d is %v, want %v", i, v, -grads[i])
				}
			}
			clear(values)
		}
		r, err := c.PullDenseAsync(values, Options{}, nil)
		must(t, err)
		<-r.Done()
		must(t, r.Err())
		if values[n-1] != -grads[n-1] || floats(m)[6] != 0 || floats(m)[7+n] != 0 {
			t.Errorf("values %v, before %v, behind %v", values[n-1], floats(m)[6], floats(m)[7+n])
		}
		must(t, c.Unregister(m))
	})
}

// A dense push from lent memory that is given up leaves its place in the sequence
// behind, and the memory free, whenever the server goes.
func TestGivenUpDenseFromLentMemory(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		const n = 20_000
		w := newWorld(t, shape{transport: tr, servers: 1, lanes: 2, workers: 1, staleness: server.Async, dense: n})
		c := w.open(0)
		ones := make([]float32, n)
		for i := range ones {
			ones[i] = 1
		}
		for round := range 4 {
			m, err := c.Alloc(n * 4)
			must(t, err)
			grads := floats(m)[:n]
			copy(grads, ones)
			var under []*Request
			for range 3 * round { // some are under way when the server goes
				r, err := c.PushDenseAsync(grads, Options{Timeout: 200 * time.Millisecond}, nil)
				must(t, err)
				under = append(under, r)
			}
			w.Kill(0)
			if err := c.PushDense(grads, Options{Timeout: 100 * time.Millisecond}); err == nil {
				t.Fatal("a push without a server succeeded")
			}
			for _, r := range under {
				<-r.Done()
			}
			must(t, c.Unregister(m))
			w.Start(0)
			must(t, c.PushDense(ones, Options{}))
			values := make([]float32, n)
			must(t, c.PullDense(values, Options{}))
			if values[0] != -1 || values[n-1] != -1 {
				t.Fatalf("round %d: %v and %v after one push, want -1", round, values[0], values[n-1])
			}
		}
	})
}
