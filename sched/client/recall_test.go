package client

import (
	"slices"
	"sync"
	"testing"
)

// A head that is stopped in the middle of an answer, and goes on when its group has long
// had another head, writes nowhere that the worker uses for something else: not into the
// values of that pull, asked of the next head again, nor into those of a later one. A head
// that owes values of the same pull, and is slow, gives them all the same.
func TestStoppedInsideAnAnswer(t *testing.T) {
	const groups = 6
	cl := newClusterOver(t, "shm", 3, groups)
	c := cl.open(0)
	r, err := c.NewRows(sumTable(1, 1))
	must(t, err)
	t.Cleanup(r.Close)
	keys := make([]uint64, 200)
	for i := range keys {
		keys[i] = uint64(i)
	}
	index := plan(t, r, keys)
	clock := uint64(0)
	add := func(v float32) {
		for i, k := range keys {
			r.Grads()[index[i]] = v * float32(k+1)
		}
		var pushed Call
		must(t, c.Push(r, clock, true, &pushed))
		must(t, c.Wait(&pushed))
		clock++
	}
	check := func(v float32) {
		t.Helper()
		for i, k := range keys {
			if got, want := r.Values()[index[i]], v*float32(k+1); got != want {
				t.Fatalf("key %d: %v, want %v", k, got, want)
			}
		}
	}
	add(1)

	stuck := cl.headOf(0)
	chains, _ := cl.now()
	next := chains.Groups[0].Chain[1].Server
	slow := cl.headOfNone(stuck.node.Server, next)
	reached, goOn, wrote := make(chan struct{}), make(chan struct{}), make(chan struct{})
	again := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(again)
	cl.mu.Lock()
	cl.inside = func(f *fake, group int) func() {
		switch {
		case group != 0:
		case f == stuck:
			close(reached)
			<-goOn
			return func() { close(wrote) }
		default: // the next head is asked: the memory has been exchanged
			slow.thaw()
		}
		return func() {}
	}
	cl.mu.Unlock()
	slow.freeze()
	var pulled Call
	must(t, c.Pull(r, clock, 0, &pulled))
	<-reached
	stuck.freeze()
	cl.cut(stuck.node)
	must(t, c.Wait(&pulled))
	check(1)
	add(10)
	r2 := pull(t, c, r, clock, 0)
	must(t, r2.err)
	check(11)
	again()
	<-wrote
	check(11)
	add(100)
	last := pull(t, c, r, clock, 0)
	must(t, last.err)
	check(111)
}

// headOfNone is a server that heads some group, and is none of those.
func (cl *cluster) headOfNone(servers ...int) *fake {
	for g := range cl.groups {
		if f := cl.headOf(g); !slices.Contains(servers, f.node.Server) {
			return f
		}
	}
	cl.t.Fatalf("servers %v head all groups", servers)
	return nil
}
