package rdmatest

import (
	"math/rand/v2"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
)

// Factory makes what the suite runs against.
type Factory struct {
	// New opens two domains that can reach each other. The suite closes them.
	New func(t testing.TB) (a, b rdma.Domain)
	// Memory gives at least n registrable bytes; nil means arenas of rdma/mem
	// that shm can share. Whoever makes it frees it through t.Cleanup, after
	// the domains are closed.
	Memory func(t testing.TB, n int) rdma.Memory
	// Kill makes a domain that New gave vanish without a word, as the domain of
	// a process that was killed does: what the kernel or the device does then
	// happens, and nothing that Close says to peers. The domain is still closed
	// afterwards.
	Kill func(t testing.TB, d rdma.Domain)
	// Allocates: requests may allocate: a transport for tests, or one under which
	// a library does.
	Allocates bool
	// Detour: between the domains stands something of the test's own, which
	// outlives them; what kills a domain or counts what stays is not run. For a
	// transport whose other factory has no detour.
	Detour bool
}

// patience bounds every wait of the suite for something that must happen. It
// is for a machine ten times slower than a laptop: an emulated one, on a host
// that others keep busy.
const patience = time.Minute

type check struct {
	name string
	need []rdma.Op
	run  func(*testing.T, Factory)
}

var write = []rdma.Op{rdma.OpWrite}
var imm = []rdma.Op{rdma.OpWriteImm}

func checks() []check {
	return []check{
		{"Caps", nil, testCaps},
		{"Sizes", []rdma.Op{rdma.OpWrite, rdma.OpWriteImm, rdma.OpRead, rdma.OpSend}, testSizes},
		{"Inline", write, testInline},
		{"SendOrder", []rdma.Op{rdma.OpSend}, testSendOrder},
		{"WriteThenImm", []rdma.Op{rdma.OpWrite, rdma.OpWriteImm}, testWriteThenImm},
		{"Unsignaled", write, testUnsignaled},
		{"LongBatch", write, testLongBatch},
		{"RecvDepth", nil, testRecvDepth},
		{"QueueBound", nil, testQueueBound},
		{"SenderAhead", imm, testSenderAhead},
		{"FetchAddSum", []rdma.Op{rdma.OpFetchAdd}, testFetchAddSum},
		{"CompareSwap", []rdma.Op{rdma.OpCompareSwap}, testCompareSwap},
		{"RemoteAccess", []rdma.Op{rdma.OpWrite, rdma.OpRead}, testRemoteAccess},
		{"LocalUnregistered", write, testLocalUnregistered},
		{"LengthMismatch", write, testLengthMismatch},
		{"SendTooLong", []rdma.Op{rdma.OpSend}, testSendTooLong},
		{"PeerClose", imm, testPeerClose},
		{"PeerDeath", imm, testPeerDeath},
		{"ClosePosting", write, testClosePosting},
		{"Wait", nil, testWait},
		{"ManyEndpoints", imm, testManyEndpoints},
		{"SharedRecv", imm, testSharedRecv},
		{"BothWays", imm, testBothWays},
		{"Map", write, testMap},
		{"Stats", write, testStats},
		{"Allocations", imm, testAllocations},
		{"Leaks", write, testLeaks},
	}
}

// Run holds the transport of f to the interface.
func Run(t *testing.T, f Factory) {
	if f.Memory == nil {
		f.Memory = arena
	}
	ran := 0
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			a, b := f.New(t)
			ops := a.Caps().Ops
			a.Close()
			b.Close()
			if f.Detour && (c.name == "PeerDeath" || c.name == "Leaks") {
				t.Log("not run: the factory has a detour")
				return
			}
			for _, o := range c.need {
				if !ops.Has(o) {
					t.Logf("not run: Caps declares no %s", o)
					return
				}
			}
			ran++
			c.run(t, f)
		})
	}
	t.Logf("%d of %d cases run, the others say why not", ran, len(checks()))
}

func arena(t testing.TB, n int) rdma.Memory {
	t.Helper()
	a, err := mem.New(mem.Config{Size: n, Node: -1, Purpose: "rdmatest", Share: true, Huge: "never"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("arena: %v", err)
		}
	})
	return a
}

func fill(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}
