package relay

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
	"psrt/rdma/feature"
	"psrt/rdma/shm"
	"psrt/rdma/sim"
	"psrt/rdma/tcp"
	"psrt/rdma/verbs"
	"psrt/sched/chain"
)

// patience is for a machine much slower than ours.
const patience = 60 * time.Second

func seed(t testing.TB) uint64 {
	s := rand.Uint64()
	if v := os.Getenv("PSRT_SEED"); v != "" {
		var err error
		if s, err = strconv.ParseUint(v, 0, 64); err != nil {
			t.Fatalf("PSRT_SEED: %v", err)
		}
	}
	t.Logf("PSRT_SEED=%d", s)
	return s
}

// transports make what opens domains that reach each other, by name. The lab is for
// what there is nowhere else.
func transports() map[string]func(t testing.TB) func() rdma.Domain {
	if os.Getenv("PSRT_LAB") != "" {
		return map[string]func(t testing.TB) func() rdma.Domain{"verbs": all["verbs"]}
	}
	return all
}

var all = map[string]func(t testing.TB) func() rdma.Domain{
	"sim": func(t testing.TB) func() rdma.Domain { return simulated(t, sim.Config{}) },
	"sim, slow and lossy": func(t testing.TB) func() rdma.Domain {
		return simulated(t, sim.Config{LatencyMicros: 50, JitterMicros: 100, Loss: 0.01})
	},
	"shm": func(t testing.TB) func() rdma.Domain {
		return func() rdma.Domain { return must(t)(shm.New(shm.Config{})) }
	},
	"tcp": func(t testing.TB) func() rdma.Domain {
		return func() rdma.Domain { return must(t)(tcp.New(tcp.Config{Listen: "127.0.0.1:0"})) }
	},
	"verbs": devices, // in the lab, see LAB_TESTS of the Makefile
}

// devices opens this machine's devices in turn.
func devices(t testing.TB) func() rdma.Domain {
	feature.SkipUnless(t, feature.NewProber("").Check(feature.RDMADevice))
	names, err := ibv.Devices()
	if err != nil || len(names) == 0 {
		t.Fatalf("the kernel has a device, libibverbs lists %v: %v", names, err)
	}
	made := 0
	return func() rdma.Domain {
		made++
		return must(t)(verbs.New(verbs.Config{Device: names[made%len(names)]}))
	}
}

func simulated(t testing.TB, cfg sim.Config) func() rdma.Domain {
	n, err := sim.New(seed(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	return func() rdma.Domain {
		made++
		return n.Domain(strconv.Itoa(made))
	}
}

func must(t testing.TB) func(d rdma.Domain, err error) rdma.Domain {
	return func(d rdma.Domain, err error) rdma.Domain {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// end is a Link with the queue under it.
type end struct {
	t    testing.TB
	q    rdma.Queue
	ep   rdma.Endpoint
	link *Link
	cs   [16]rdma.Completion
}

var (
	nodeA = chain.Node{Server: 3, Gen: 0xa1}
	nodeB = chain.Node{Server: 5, Gen: 0xb2}
)

const testGroup = 7

func newEnd(t testing.TB, d rdma.Domain, cfg Config) *end {
	t.Helper()
	cfg.Group, cfg.ID, cfg.Node = testGroup, 9, -1
	e := &end{t: t}
	var err error
	if e.q, err = d.NewQueue(cfg.Options.QueueDepth()); err != nil {
		t.Fatal(err)
	}
	if e.link, err = New(d, cfg); err != nil {
		t.Fatal(err)
	}
	if e.ep, err = d.NewEndpoint(e.link.Endpoint(e.q)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.link.Close(); d.Close() })
	return e
}

// joined is a link with both its ends; a dialled.
func joined(t testing.TB, da, db rdma.Domain, opt Options, onA, onB func(*chain.Message)) (a, b *end) {
	t.Helper()
	a = newEnd(t, da, Config{Self: nodeA, Peer: nodeB, Dials: true, Options: opt, On: onA})
	b = newEnd(t, db, Config{Self: nodeB, Peer: nodeA, Options: opt, On: onB})
	connect(t, a.ep, b.ep)
	for _, e := range []*end{a, b} {
		if err := e.link.Attach(e.ep); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.link.Ready(a.link.Offer()); err != nil {
		t.Fatal(err)
	}
	if err := a.link.Ready(b.link.Offer()); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func connect(t testing.TB, a, b rdma.Endpoint) {
	t.Helper()
	deadline := time.Now().Add(patience)
	var wg sync.WaitGroup
	var ea, eb error
	wg.Go(func() { ea = a.Connect(b.Address(), deadline) })
	wg.Go(func() { eb = b.Connect(a.Address(), deadline) })
	wg.Wait()
	if ea != nil || eb != nil {
		t.Fatalf("connect: %v; %v", ea, eb)
	}
}

// step handles what is there; the link may break.
func (e *end) step() (n int, err error) {
	n = e.q.Poll(e.cs[:])
	for i := range e.cs[:n] {
		if err := e.link.Complete(&e.cs[i]); err != nil {
			return n, err
		}
	}
	return n, e.link.Flush()
}

func (e *end) mustStep() int {
	e.t.Helper()
	n, err := e.step()
	if err != nil {
		e.t.Fatal(err)
	}
	return n
}

// until drives both ends until done.
func until(t testing.TB, done func() bool, ends ...*end) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !done() {
		n := 0
		for _, e := range ends {
			n += e.mustStep()
		}
		if n == 0 {
			if time.Now().After(deadline) {
				s := ""
				for _, e := range ends {
					s += fmt.Sprintf("; %+v", e.link.Stats())
				}
				t.Fatalf("nothing came for %v%s", patience, s)
			}
			ends[0].q.Wait(time.Now().Add(time.Millisecond))
		} else {
			deadline = time.Now().Add(patience)
		}
	}
}
