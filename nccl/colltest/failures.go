package colltest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"psrt/nccl/coll"
)

// reduce is an all-reduce of some bytes.
func (r *ranks) reduce(i, bytes int) coll.Call {
	return coll.Call{Kind: coll.AllReduce, Type: coll.F32, Send: r.send[i][:bytes], Recv: r.recv[i][:bytes], Within: patience}
}

// blamed wants err to name one of ranks for one of faults.
func blamed(t *testing.T, who int, err error, rank int, faults ...coll.Fault) {
	t.Helper()
	var e *coll.RankError
	if !errors.As(err, &e) || e.Rank != rank {
		t.Errorf("rank %d: %v, want an error that names rank %d", who, err, rank)
		return
	}
	for _, f := range faults {
		if e.Fault == f {
			return
		}
	}
	t.Errorf("rank %d: rank %d is blamed since it %s (%v), want one of %v", who, rank, e.Fault, err, faults)
}

// broken wants a group that does nothing any more.
func (r *ranks) broken(t *testing.T, i int) {
	t.Helper()
	if r.groups[i].Err() == nil {
		t.Errorf("rank %d: the group is whole after a failure", i)
	}
	if err := r.groups[i].Do(coll.Call{Kind: coll.Barrier}); err == nil {
		t.Errorf("rank %d: a broken group passed a barrier", i)
	}
}

func testRefused(t *testing.T, f Factory) {
	r := f.ranks(t, min(2, f.MaxRanks), 1024)
	outside := f.Memory(t, 4096).Bytes()
	for i, g := range r.groups {
		for name, c := range map[string]coll.Call{
			"no kind":       {},
			"lengths":       {Kind: coll.AllReduce, Type: coll.F32, Send: r.send[i][:8], Recv: r.recv[i][:4]},
			"outside":       {Kind: coll.AllReduce, Type: coll.F32, Send: outside[:64], Recv: r.recv[i][:64]},
			"outside, recv": {Kind: coll.Broadcast, Type: coll.F32, Recv: outside[:64]},
		} {
			if err := g.Do(c); !errors.Is(err, coll.ErrCall) {
				t.Errorf("rank %d: %s: %v, want ErrCall", i, name, err)
			}
		}
	}
	// Nothing was sent and nothing is broken.
	for i, err := range r.each(func(i int, g coll.Group) error { return g.Do(r.reduce(i, 64)) }) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

func testDiffers(t *testing.T, f Factory) {
	if f.MaxRanks < 2 {
		return
	}
	for name, change := range map[string]func(*coll.Call){
		"kind":  func(c *coll.Call) { *c = coll.Call{Kind: coll.Barrier, Within: patience} },
		"type":  func(c *coll.Call) { c.Type = coll.I32 },
		"op":    func(c *coll.Call) { c.Op = coll.Max },
		"bytes": func(c *coll.Call) { c.Send, c.Recv = c.Send[:len(c.Send)-4], c.Recv[:len(c.Recv)-4] },
	} {
		for _, bytes := range []int{64, 4 * f.EagerBytes} {
			t.Run(name, func(t *testing.T) {
				r := f.ranks(t, min(3, f.MaxRanks), 4*f.EagerBytes)
				odd := len(r.groups) - 1
				errs := r.each(func(i int, g coll.Group) error {
					c := r.reduce(i, bytes)
					if i == odd {
						change(&c)
					}
					return g.Do(c)
				})
				for i, err := range errs {
					var e *coll.RankError
					if !errors.As(err, &e) || e.Fault != coll.Differs {
						t.Errorf("rank %d: %v, want that calls differ", i, err)
					}
					r.broken(t, i)
				}
			})
		}
	}
}

func testLate(t *testing.T, f Factory) {
	if f.MaxRanks < 2 {
		return
	}
	r := f.ranks(t, min(3, f.MaxRanks), 1024)
	late := 1
	errs := r.each(func(i int, g coll.Group) error {
		if i == late {
			return nil
		}
		c := r.reduce(i, 64)
		c.Within = 300 * time.Millisecond
		return g.Do(c)
	})
	for i, err := range errs {
		if i != late {
			blamed(t, i, err, late, coll.Late)
			r.broken(t, i)
		}
	}
	// The late one is told when it comes.
	blamed(t, late, r.groups[late].Do(r.reduce(late, 64)), late, coll.Late)
}

func testAbort(t *testing.T, f Factory) {
	if f.MaxRanks < 2 {
		return
	}
	r := f.ranks(t, min(3, f.MaxRanks), 1024)
	errs := r.each(func(i int, g coll.Group) error {
		if i == 0 {
			g.Abort(errors.New("tired"))
			return nil
		}
		return g.Do(r.reduce(i, 64))
	})
	for i, err := range errs {
		if i == 0 {
			continue
		}
		blamed(t, i, err, 0, coll.Aborted)
		if err != nil && !strings.Contains(err.Error(), "tired") {
			t.Errorf("rank %d does not say why: %v", i, err)
		}
		r.broken(t, i)
	}
	r.broken(t, 0)
}

// testKilled kills a rank before it comes to a call in which all others wait.
func testKilled(t *testing.T, f Factory) {
	if f.Kill == nil || f.MaxRanks < 2 {
		return
	}
	for victim := range min(3, f.MaxRanks) {
		r := f.ranks(t, min(3, f.MaxRanks), 64<<10)
		for i, err := range r.each(func(i int, g coll.Group) error { return g.Do(r.reduce(i, 64<<10)) }) {
			if err != nil {
				t.Fatalf("rank %d: %v", i, err)
			}
		}
		began := time.Now()
		errs := r.each(func(i int, g coll.Group) error {
			if i == victim {
				f.Kill(t, r.groups, i)
				return nil
			}
			return g.Do(r.reduce(i, 64<<10))
		})
		for i, err := range errs {
			if i != victim {
				blamed(t, i, err, victim, coll.Gone, coll.Silent)
				r.broken(t, i)
			}
		}
		if took := time.Since(began); took > patience {
			t.Errorf("the others waited for %v", took)
		}
	}
}

func testClosed(t *testing.T, f Factory) {
	r := f.ranks(t, min(2, f.MaxRanks), 1024)
	errs := r.each(func(i int, g coll.Group) error {
		if err := g.Do(r.reduce(i, 64)); err != nil {
			return err
		}
		return g.Close() // others may still be in their last call
	})
	for i, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
	for i, g := range r.groups {
		if err := g.Do(r.reduce(i, 64)); !errors.Is(err, coll.ErrClosed) {
			t.Errorf("rank %d: %v, want ErrClosed", i, err)
		}
		if err := g.Start(coll.Call{Kind: coll.Barrier}).Wait(); !errors.Is(err, coll.ErrClosed) {
			t.Errorf("rank %d: %v, want ErrClosed", i, err)
		}
	}
}
