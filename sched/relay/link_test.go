package relay

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"psrt/rdma/shm"
	"psrt/rdma/sim"
	"psrt/sched/chain"
)

// TestBothWays sends all kinds of messages in both directions at a time, through rings
// from the smallest to such that nothing waits.
func TestBothWays(t *testing.T) {
	for name, open := range transports() {
		for _, opt := range []Options{{RingBytes: minRing, BackBytes: minRing, Depth: minDepth}, {RingBytes: 64 << 10, BackBytes: minRing}, {}} {
			t.Run(name, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed(t), 3))
				d := open(t)
				da, db := d(), d()
				var sent, got [2][]*chain.Message
				take := func(i int) func(m *chain.Message) {
					return func(m *chain.Message) { got[i] = append(got[i], clone(m)) }
				}
				a, b := joined(t, da, db, opt, take(0), take(1))
				for range 150 {
					for i, e := range []*end{a, b} {
						m := some(r, e.link.cfg.Self, e.link.cfg.Peer, 1<<r.IntN(17))
						if !e.link.Send(m) {
							t.Fatalf("dropped: %+v", e.link.Stats())
						}
						sent[1-i] = append(sent[1-i], m)
					}
					if r.IntN(3) == 0 {
						a.mustStep()
					}
					if r.IntN(3) == 0 {
						b.mustStep()
					}
				}
				until(t, func() bool { return len(got[0]) == len(sent[0]) && len(got[1]) == len(sent[1]) }, a, b)
				for i := range sent {
					for k, m := range sent[i] {
						if !reflect.DeepEqual(got[i][k], m) {
							t.Fatalf("message %d: got %+v, sent %+v", k, got[i][k], m)
						}
					}
				}
				for _, e := range []*end{a, b} {
					if s := e.link.Stats(); s.Queued != 0 || s.QueuedBytes != 0 || s.Dropped != 0 || s.SentMessages != 150 || s.ReceivedMessages != 150 {
						t.Errorf("%+v", s)
					}
				}
			})
		}
	}
}

// TestWindow has a machine's window of chunks on its way to a reader that does not
// come: nothing is dropped, and nothing is lost when it comes at last.
func TestWindow(t *testing.T) {
	for name, open := range transports() {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			da, db := d(), d()
			n, sum := 0, 0
			a, b := joined(t, da, db, Options{}, func(*chain.Message) {}, func(m *chain.Message) {
				if n++; m.Seq != uint64(n) || m.Bytes[0] != byte(n) || m.Bytes[len(m.Bytes)-1] != byte(n) {
					t.Fatalf("message %d is %d, of %d", n, m.Seq, m.Bytes[0])
				}
				sum += len(m.Bytes)
			})
			const chunk, window = 256 << 10, 4<<20 + 256<<10
			for i := range window / chunk {
				body := make([]byte, chunk)
				for k := range body {
					body[k] = byte(i + 1)
				}
				if !a.link.Send(&chain.Message{Kind: chain.Data, Group: testGroup, From: nodeA, To: nodeB, Seq: uint64(i + 1), Bytes: body,
					Header: chain.Header{Kind: chain.Push, Size: chunk}}) {
					t.Fatalf("chunk %d was dropped: %+v", i, a.link.Stats())
				}
				a.mustStep()
			}
			if s := a.link.Stats(); s.Queued == 0 {
				t.Errorf("all went out at once, the test waits for nothing: %+v", s)
			}
			until(t, func() bool { return sum == window }, a, b)
		})
	}
}

// TestFull sends until messages are dropped. Those that were taken come, in order,
// and then there is room again.
func TestFull(t *testing.T) {
	for name, open := range transports() {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			da, db := d(), d()
			var got []uint64
			opt := Options{RingBytes: minRing, Depth: minDepth, QueueMessages: 40}
			a, b := joined(t, da, db, opt, func(*chain.Message) {}, func(m *chain.Message) { got = append(got, m.Seq) })
			var want []uint64
			for round := range 3 {
				for i := uint64(1); ; i++ {
					if !a.link.Send(&chain.Message{Kind: chain.Tell, Group: testGroup, From: nodeA, To: nodeB, Seq: i}) {
						break
					}
					want = append(want, i)
					a.mustStep()
				}
				if s := a.link.Stats(); s.Queued != 40 || s.Dropped != uint64(round+1) || s.Unread > minDepth {
					t.Fatalf("full: %+v", s)
				}
				until(t, func() bool { return len(got) == len(want) }, a, b)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			// By bytes: one message may be larger than all the queue.
			for i, n := range []int{100, 200, 100} {
				body := make([]byte, n<<10)
				a.link.opt.QueueBytes = 250 << 10
				sent := a.link.Send(&chain.Message{Kind: chain.Data, Group: testGroup, From: nodeA, To: nodeB, Bytes: body, Header: chain.Header{Kind: chain.Push, Size: len(body)}})
				if sent != (i != 1) {
					t.Errorf("message of %d KiB: sent %v, %+v", n, sent, a.link.Stats())
				}
			}
		})
	}
}

// TestAgain: what is on its way is not taken twice; what has changed, or is done at the
// peer, is.
func TestAgain(t *testing.T) {
	d := simulated(t, sim.Config{})
	var got []uint64
	opt := Options{RingBytes: minRing}
	a, b := joined(t, d(), d(), opt, func(*chain.Message) {}, func(m *chain.Message) { got = append(got, m.Seq) })
	data := func(epoch, seq uint64, kind chain.Kind) *chain.Message {
		return &chain.Message{Kind: chain.Data, Group: testGroup, From: nodeA, To: nodeB, Epoch: epoch, Seq: seq,
			Header: chain.Header{Kind: kind, Size: minRing}, Bytes: make([]byte, minRing)} // more than the ring
	}
	var want []uint64
	send := func(m *chain.Message, taken bool) {
		t.Helper()
		before := a.link.Stats()
		if !a.link.Send(m) {
			t.Fatalf("dropped: %+v", a.link.Stats())
		}
		if was := a.link.Stats().Spared == before.Spared; was != taken {
			t.Errorf("epoch %d, op %d: taken %v, want %v", m.Epoch, m.Seq, was, taken)
		}
		if taken {
			want = append(want, m.Seq)
		}
	}
	for seq := uint64(1); seq <= 5; seq++ {
		send(data(1, seq, chain.Push), true)
	}
	for seq := uint64(1); seq <= 5; seq++ {
		send(data(1, seq, chain.Push), false)
	}
	send(data(1, 5, chain.Void), true)
	send(data(2, 3, chain.Push), true)
	send(data(1, 4, chain.Push), false)
	send(data(1, 6, chain.Push), true)
	// Small ones are in the ring as soon as there is room.
	small := data(2, 4, chain.Push)
	small.Bytes = small.Bytes[:10]
	send(small, true)
	until(t, func() bool { return len(got) == len(want) && a.link.Stats().Unread == 0 }, a, b)
	small.Seq = 5
	send(small, true)
	if a.link.Pending() != 0 {
		t.Error("a small message waits although nothing is on its way")
	}
	send(small, false)
	until(t, func() bool { return len(got) == len(want) && a.link.Stats().Unread == 0 }, a, b)
	send(data(2, 3, chain.Push), true)
	until(t, func() bool { return len(got) == len(want) }, a, b)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestAgainCut: parts of an op that are sent again and cut otherwise arrive once, as long
// as they are on their way; of one that goes on behind them, what is new does.
func TestAgainCut(t *testing.T) {
	d := simulated(t, sim.Config{})
	const size = 64 << 10
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(i >> 8)
	}
	type part struct{ off, bytes int }
	var got []part
	a, b := joined(t, d(), d(), Options{RingBytes: minRing}, func(*chain.Message) {}, func(m *chain.Message) {
		if !bytes.Equal(m.Bytes, body[m.Off:m.Off+len(m.Bytes)]) {
			t.Errorf("bytes %d to %d of the op are others", m.Off, m.Off+len(m.Bytes))
		}
		got = append(got, part{m.Off, len(m.Bytes)})
	})
	var want []part
	for _, x := range []struct {
		send, takes part
	}{
		{part{0, 20000}, part{0, 20000}},
		{part{20000, 10000}, part{20000, 10000}},
		{part{0, 25000}, part{}},
		{part{5000, 20000}, part{}},
		{part{10000, 30000}, part{30000, 10000}}, // grown meanwhile
		{part{0, 40000}, part{}},
		{part{50000, 1000}, part{50000, 1000}}, // leaves a gap
		{part{20000, 31000}, part{40000, 11000}},
		{part{0, size}, part{51000, size - 51000}},
	} {
		m := &chain.Message{Kind: chain.Data, Group: testGroup, From: nodeA, To: nodeB, Epoch: 1, Seq: 1, Off: x.send.off,
			Header: chain.Header{Kind: chain.Push, Size: size}, Bytes: body[x.send.off : x.send.off+x.send.bytes]}
		if !a.link.Send(m) {
			t.Fatalf("%+v: dropped: %+v", x.send, a.link.Stats())
		}
		if x.takes.bytes > 0 {
			want = append(want, x.takes)
		}
	}
	until(t, func() bool { return len(got) == len(want) && a.link.Stats().Unread == 0 }, a, b)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestOneWay sends far more than a ring in one direction only: credits come without
// records then.
func TestOneWay(t *testing.T) {
	for name, open := range transports() {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			da, db := d(), d()
			n := 0
			a, b := joined(t, da, db, Options{RingBytes: minRing, Depth: minDepth}, func(*chain.Message) {}, func(m *chain.Message) { n++ })
			const all = 2000
			sent := 0
			until(t, func() bool {
				for sent < all && a.link.Pending() < 5 {
					sent++
					a.link.Send(&chain.Message{Kind: chain.Tell, Group: testGroup, From: nodeA, To: nodeB, Seq: uint64(sent)})
				}
				return n == all
			}, a, b)
			if s := b.link.Stats(); s.Credits == 0 || s.Credits > all/(minDepth/4) || s.SentRecords != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestAllocates: a chunk one way and an acknowledgement the other cost no allocation.
func TestAllocates(t *testing.T) {
	a, err := shm.New(shm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := shm.New(shm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	acked := 0
	var ends [2]*end
	ack := chain.Message{Kind: chain.Ack, Group: testGroup, From: nodeB, To: nodeA}
	ends[0], ends[1] = joined(t, a, b, Options{}, func(m *chain.Message) { acked++ }, func(m *chain.Message) { ends[1].link.Send(&ack) })
	body := make([]byte, 100<<10)
	data := chain.Message{Kind: chain.Data, Group: testGroup, From: nodeA, To: nodeB, Bytes: body, Header: chain.Header{Kind: chain.Push, Size: len(body)}}
	turn := func() {
		want := acked + 1
		data.Seq++
		ends[0].link.Send(&data)
		for acked < want {
			for _, e := range ends {
				if _, err := e.step(); err != nil {
					panic(err)
				}
			}
		}
	}
	for range 500 {
		turn()
	}
	if n := testing.AllocsPerRun(500, turn); n != 0 {
		t.Errorf("%v allocations for a chunk and its acknowledgement", n)
	}
	if s := ends[1].link.Stats(); s.CopiedInBytes != 0 {
		t.Errorf("chunks were copied out of the ring: %+v", s)
	}
}
