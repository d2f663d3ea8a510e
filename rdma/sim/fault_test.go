package sim_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma"
	"psrt/rdma/sim"
)

// plain is memory for a simulated NIC, which may reach the heap.
type plain []byte

func (p plain) Bytes() []byte                  { return p }
func (p plain) Descriptor() (int, int64, bool) { return 0, 0, false }
func (p plain) NUMANode() int                  { return -1 }

type end struct {
	q   rdma.Queue
	ep  rdma.Endpoint
	reg rdma.Region
}

func newEnd(t *testing.T, d rdma.Domain, peer string) end {
	t.Helper()
	reg, err := d.Register(make(plain, 1<<16), rdma.AccessAll, "test")
	q, err2 := d.NewQueue(256)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	ep, err := d.NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: 128, RecvDepth: 128, Peer: peer, OpTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return end{q, ep, reg}
}

// bubble joins two ends in virtual time.
func bubble(t *testing.T, seed uint64, cfg sim.Config, play func(t *testing.T, n *sim.Network, a, b end)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n, err := sim.New(seed, cfg)
		if err != nil {
			t.Fatal(err)
		}
		da, db := n.Domain("a"), n.Domain("b")
		defer da.Close()
		defer db.Close()
		a, b := newEnd(t, da, "b"), newEnd(t, db, "a")
		join(t, a, b)
		play(t, n, a, b)
	})
}

func join(t *testing.T, a, b end) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	other := make(chan error, 1)
	go func() { other <- b.ep.Connect(a.ep.Address(), deadline) }()
	if err := errors.Join(a.ep.Connect(b.ep.Address(), deadline), <-other); err != nil {
		t.Fatal(err)
	}
}

func (x end) write(t *testing.T, to end, i, n int) {
	t.Helper()
	x.reg.Bytes()[i] = byte(i + 1)
	k, err := x.ep.Post([]rdma.WR{{ID: uint64(i), Op: rdma.OpWrite, Signaled: true,
		Local: x.reg.Bytes()[i : i+n], Remote: to.reg.Remote().Slice(uint64(i), uint64(n))}})
	if k != 1 || err != nil {
		t.Fatal(k, err)
	}
}

// next waits at most an hour of the bubble's time.
func (x end) next(t *testing.T) rdma.Completion {
	t.Helper()
	var cs [1]rdma.Completion
	for deadline := time.Now().Add(time.Hour); time.Now().Before(deadline); _ = x.q.Wait(deadline) {
		if x.q.Poll(cs[:]) == 1 {
			return cs[0]
		}
	}
	t.Fatal("no completion in an hour")
	return rdma.Completion{}
}

func TestWireTime(t *testing.T) {
	bubble(t, 1, sim.Config{LatencyMicros: 100, BytesPerSecond: 1e6}, func(t *testing.T, _ *sim.Network, a, b end) {
		start := time.Now()
		a.write(t, b, 0, 10000)
		a.next(t)
		if d := time.Since(start); d != 10*time.Millisecond+200*time.Microsecond {
			t.Errorf("10000 bytes at 1 MB/s and 100us each way took %s", d)
		}
	})
}

// TestPartition: on the way there nothing is executed; on the way back it is,
// but the sender cannot know. Both fail by OpTimeout, both go on if healed.
func TestPartition(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		heal           bool
		arrived        byte
		status         rdma.Status
	}{
		{"there", "a", "b", false, 0, rdma.StatusRetryExceeded},
		{"back", "b", "a", false, 1, rdma.StatusRetryExceeded},
		{"there, healed", "a", "b", true, 1, rdma.StatusOK},
		{"back, healed", "b", "a", true, 1, rdma.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, 1, sim.Config{LatencyMicros: 10}, func(t *testing.T, n *sim.Network, a, b end) {
				start := time.Now()
				n.Cut(c.from, c.to)
				a.write(t, b, 0, 1)
				if c.heal {
					time.Sleep(500 * time.Millisecond)
					if a.q.Poll(make([]rdma.Completion, 1)) != 0 {
						t.Error("a completion came through the cut")
					}
					n.Heal(c.from, c.to)
				}
				got := a.next(t)
				if got.Status != c.status || b.reg.Bytes()[0] != c.arrived {
					t.Errorf("%s, peer's byte %d; want %s, %d", got.Status, b.reg.Bytes()[0], c.status, c.arrived)
				}
				if d := time.Since(start); d > 1100*time.Millisecond || !c.heal && d < time.Second {
					t.Errorf("decided after %s at OpTimeout 1s", d)
				}
			})
		})
	}
}

// TestConnectWaits: two that call each other over a cut path meet when it heals.
func TestConnectWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := sim.New(1, sim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		da, db := n.Domain("a"), n.Domain("b")
		defer da.Close()
		defer db.Close()
		n.Cut("b", "a")
		go func() { time.Sleep(time.Second); n.Heal("b", "a") }()
		start := time.Now()
		join(t, newEnd(t, da, "b"), newEnd(t, db, "a"))
		if d := time.Since(start); d != time.Second {
			t.Errorf("joined after %s, the path was healed after 1s", d)
		}
	})
}

// TestBreakIsSilent: the broken side knows at once, its peer only by timeout.
func TestBreakIsSilent(t *testing.T) {
	bubble(t, 1, sim.Config{LatencyMicros: 10}, func(t *testing.T, n *sim.Network, a, b end) {
		a.write(t, b, 0, 1)
		n.Break("a", "b")
		if c := a.next(t); c.Status != rdma.StatusRetryExceeded {
			t.Errorf("in flight at the break: %s", c.Status)
		}
		var e *rdma.Error
		if _, err := a.ep.Post([]rdma.WR{{Op: rdma.OpWrite}}); !errors.As(err, &e) || e.Peer != "b" {
			t.Errorf("Post after the break: %v", err)
		}
		start := time.Now()
		b.write(t, a, 1, 1)
		if c := b.next(t); c.Status != rdma.StatusRetryExceeded || time.Since(start) < time.Second {
			t.Errorf("peer: %s after %s", c.Status, time.Since(start))
		}
	})
}

// TestSeeds: loss only delays, keeps an endpoint's order, and the same seed
// delays the same way.
func TestSeeds(t *testing.T) {
	seed := seedtest.Seed(t)
	run := func(seed uint64) (times []time.Duration) {
		bubble(t, seed, sim.Config{LatencyMicros: 10, JitterMicros: 50, Loss: 0.3, RetransmitMicros: 700}, func(t *testing.T, _ *sim.Network, a, b end) {
			start := time.Now()
			for i := range 100 {
				a.write(t, b, i, 1)
			}
			for i := range 100 {
				if c := a.next(t); c.ID != uint64(i) || c.Status != rdma.StatusOK || b.reg.Bytes()[i] != byte(i+1) {
					t.Fatalf("completion %d: %+v", i, c)
				}
				times = append(times, time.Since(start))
			}
		})
		return times
	}
	first := run(seed)
	if first[99] < 700*time.Microsecond {
		t.Errorf("100 requests at 30%% loss took %s: nothing was lost", first[99])
	}
	if !slices.Equal(first, run(seed)) {
		t.Error("the same seed gave other times")
	}
	if slices.Equal(first, run(seed+1)) {
		t.Error("another seed gave the same times")
	}
}
