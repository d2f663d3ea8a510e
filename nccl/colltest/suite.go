package colltest

import (
	"testing"
	"time"

	"psrt/nccl/coll"
	"psrt/rdma"
	"psrt/rdma/mem"
)

// Factory makes what the suite runs against.
type Factory struct {
	// New makes the groups of size ranks, which the test closes. Order is
	// coll.TreeOrder.
	New func(t testing.TB, size int) []coll.Group
	// Kill ends rank's process, or what stands for it, without a word to the others.
	// The group is still closed afterwards. nil: it cannot be done in a test.
	Kill func(t testing.TB, groups []coll.Group, rank int)
	// Memory gives at least n bytes that can be registered, until the test ends. nil:
	// arenas of rdma/mem.
	Memory func(t testing.TB, n int) rdma.Memory
	// AnyOrder: floats may be combined in an order of the implementation's own, so that
	// results are Naive's but for what another order can change; see near.
	AnyOrder bool
	// MaxRanks bounds the groups; 0 does not.
	MaxRanks int
	// EagerBytes is where the implementation changes its ways, for sizes around it.
	EagerBytes int
}

// patience bounds what must happen, for a machine ten times slower.
const patience = time.Minute

// Run runs the suite.
func Run(t *testing.T, f Factory) {
	if f.Memory == nil {
		f.Memory = arena
	}
	if f.MaxRanks == 0 {
		f.MaxRanks = 5
	}
	if f.EagerBytes == 0 {
		f.EagerBytes = 4096
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, Factory)
	}{
		{"Types", testTypes},
		{"Sizes", testSizes},
		{"InPlace", testInPlace},
		{"Absent", testAbsent},
		{"Sequence", testSequence},
		{"Concurrent", testConcurrent},
		{"Refused", testRefused},
		{"Differs", testDiffers},
		{"Late", testLate},
		{"Abort", testAbort},
		{"Killed", testKilled},
		{"Closed", testClosed},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, f) })
	}
}

func arena(t testing.TB, n int) rdma.Memory {
	a, err := mem.New(mem.Config{Size: max(n, 1), Node: -1, Purpose: "colltest", Share: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// ranks is a group with some memory at each rank, in halves: one to send from and
// one to receive in.
type ranks struct {
	groups   []coll.Group
	send     [][]byte
	recv     [][]byte
	anyOrder bool
}

func (f *Factory) ranks(t testing.TB, size, bytes int) *ranks {
	t.Helper()
	memories := make([]rdma.Memory, size)
	for i := range memories {
		memories[i] = f.Memory(t, 2*bytes) // given back after the groups
	}
	r := &ranks{groups: f.New(t, size), anyOrder: f.AnyOrder}
	for i, g := range r.groups {
		t.Cleanup(func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
		m, err := g.Register(memories[i], "colltest")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
		r.send, r.recv = append(r.send, m.Bytes()[:bytes]), append(r.recv, m.Bytes()[bytes:2*bytes])
	}
	return r
}

// each runs f for every rank at once and gives the errors.
func (r *ranks) each(f func(rank int, g coll.Group) error) []error {
	errs := make([]error, len(r.groups))
	done := make(chan int)
	for i, g := range r.groups {
		go func() { errs[i] = f(i, g); done <- i }()
	}
	for range r.groups {
		<-done
	}
	return errs
}
