package client

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"psrt/rdma/mem"
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

// A head that is stopped inside memory of a trainer's own may write there whenever it goes
// on, and no other memory can be put in its place: the client ends, and says so, whether
// the pull is waited for still or was given up.
func TestStoppedInsideMemoryOfOthers(t *testing.T) {
	for _, given := range []bool{false, true} {
		name := "waits"
		if given {
			name = "given up"
		}
		t.Run(name, func(t *testing.T) {
			cl := newClusterOver(t, "shm", 3, 1)
			c := cl.open(0)
			arena, err := mem.New(mem.Config{Size: 1 << 16, Node: -1, Purpose: "trainer's memory", Share: true})
			must(t, err)
			lent := c.Lend(arena, "trainer's memory")
			r := c.NewLentRows(sumTable(1, 1))
			plan(t, r, []uint64{1, 2, 3})
			must(t, r.Lend(lent, 0))
			t.Cleanup(func() { r.Close(); lent.Close(); arena.Close() })
			own, err := c.NewRows(sumTable(1, 1))
			must(t, err)
			t.Cleanup(own.Close)
			plan(t, own, []uint64{1, 2, 3})

			var pulled Call
			must(t, c.Pull(r, 0, 0, &pulled)) // what is first asked of a connection waits for its grants
			must(t, c.Wait(&pulled))

			stuck := cl.headOf(0)
			reached, goOn := make(chan struct{}), make(chan struct{})
			t.Cleanup(sync.OnceFunc(func() { close(goOn) }))
			cl.mu.Lock()
			cl.inside = func(f *fake, _ int) func() {
				if f == stuck {
					close(reached)
					<-goOn
				}
				return func() {}
			}
			cl.mu.Unlock()
			must(t, c.Pull(r, 0, 0, &pulled))
			<-reached
			stuck.freeze()
			if given {
				c.lock()
				c.Break(&pulled, errors.New("given up"))
				c.Void(&pulled)
				c.unlock()
				must(t, c.Pull(own, 0, 0, &pulled))
			}
			cl.cut(stuck.node)
			if err := c.Wait(&pulled); !errors.Is(err, ErrNotOurs) {
				t.Errorf("a pull into memory that another server is stopped in ends with %v", err)
			}
		})
	}
}
