package relay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/sched/chain"
)

// tape is a State that is what was done to it: a hash over all ops, and a body's
// bytes as a row by its worker's pushes.
type tape struct {
	hash [32]byte
	was  [32]byte // before the last op
	rows [][]byte // by the order of pushes
}

func (s *tape) Take(op *chain.Op, note bool) []byte {
	s.was = s.hash
	h := sha256.New()
	h.Write(s.hash[:])
	fmt.Fprintf(h, "%+v", op.Header)
	h.Write(op.Body)
	h.Sum(s.hash[:0])
	if op.Kind == chain.Push {
		s.rows = append(s.rows, op.Body)
		return binary.LittleEndian.AppendUint64(nil, uint64(len(s.rows)-1))
	}
	return nil
}

func (s *tape) Rest() []byte { return bytes.Clone(s.hash[:]) }

// Rows: 8 bytes of length before each.
func (s *tape) Rows(cursor uint64, budget int) (data []byte, next uint64, last bool) {
	for ; cursor < uint64(len(s.rows)) && len(data) < budget; cursor++ {
		data = binary.LittleEndian.AppendUint64(data, uint64(len(s.rows[cursor])))
		data = append(data, s.rows[cursor]...)
	}
	return data, cursor, cursor == uint64(len(s.rows))
}

func (s *tape) Clear()            { *s = tape{} }
func (s *tape) Begin(rest []byte) { copy(s.hash[:], rest) }
func (s *tape) Install(rows []byte) {
	for len(rows) > 0 {
		n := binary.LittleEndian.Uint64(rows)
		s.rows = append(s.rows, bytes.Clone(rows[8:8+n]))
		rows = rows[8+n:]
	}
}

// TakePart: the row of an op that came while rows were copied comes later, with them.
func (s *tape) TakePart(op *chain.Op, note []byte) {
	rows := s.rows
	s.Take(op, false)
	s.rows = rows
}

func (s *tape) Past() []byte    { return bytes.Clone(s.was[:]) }
func (s *tape) End(past []byte) { copy(s.was[:], past) }

// replica is one node: a machine and its links, and the goroutine that has them.
type replica struct {
	t     *testing.T
	self  chain.Node
	d     rdma.Domain
	q     rdma.Queue
	tape  tape
	m     *chain.Machine
	links map[uint32]*Link
	ids   uint32
	cmds  chan func()
	quit  bool
	gone  chan struct{}

	// The head's pushes: those not yet in the order, and how many are done.
	bodies  [][]byte
	next    int
	done    int
	caught  bool
	dropped int
}

func newReplica(t *testing.T, server int, d rdma.Domain, opt chain.Options) *replica {
	q, err := d.NewQueue(20 * Options{}.QueueDepth())
	if err != nil {
		t.Fatal(err)
	}
	n := &replica{t: t, self: chain.Node{Server: server, Gen: 1}, d: d, q: q, links: map[uint32]*Link{}, cmds: make(chan func(), 16), gone: make(chan struct{})}
	n.m = chain.New(n.self, testGroup, opt, &n.tape)
	go n.run()
	return n
}

func (n *replica) run() {
	defer close(n.gone)
	var cs [32]rdma.Completion
	ticked := time.Now()
	for !n.quit {
		k := n.q.Poll(cs[:])
		for i := range cs[:k] {
			id := uint32(cs[i].ID >> 32)
			if l := n.links[id]; l != nil && l.Complete(&cs[i]) != nil {
				n.unlink(id)
			}
		}
		for {
			select {
			case f := <-n.cmds:
				f()
				continue
			default:
			}
			break
		}
		// Far too often for what is on its way: machines send again and again.
		if now := time.Now(); now.Sub(ticked) > 50*time.Microsecond {
			ticked = now
			n.m.Tick()
		}
		n.submit()
		n.carry()
		if k == 0 {
			n.q.Wait(time.Now().Add(5 * time.Millisecond))
		}
	}
	for id := range n.links {
		n.unlink(id)
	}
	n.d.Close()
}

func (n *replica) unlink(id uint32) {
	n.links[id].Close()
	delete(n.links, id)
}

func (n *replica) submit() {
	for n.next < len(n.bodies) {
		h := chain.Header{Kind: chain.Push, Client: 1, Push: uint64(n.next), Size: len(n.bodies[n.next])}
		if n.next == 0 {
			h.Kind = chain.Enter
		}
		if _, v := n.m.Submit(n.m.Epoch(), h, n.bodies[n.next]); v != chain.Ordered {
			return
		}
		n.next++
		n.carry()
	}
}

// carry does what the machine wants done.
func (n *replica) carry() {
	for again := true; again; {
		again = false
		out := n.m.Outputs()
		for i := range out.Messages {
			sent := false
			for _, l := range n.links {
				sent = sent || l.cfg.Peer == out.Messages[i].To && l.Send(&out.Messages[i])
			}
			if !sent {
				n.dropped++
			}
		}
		n.done += len(out.Done)
		for _, r := range out.Reports {
			switch r.Kind {
			case chain.Fence:
				n.m.Fenced(r.Epoch)
				again = true
			case chain.Caught:
				n.caught = true
			}
		}
	}
	for id, l := range n.links {
		if l.Flush() != nil {
			n.unlink(id)
		}
	}
}

// do runs f on the node's goroutine.
func (n *replica) do(f func()) {
	n.t.Helper()
	done := make(chan struct{})
	n.cmds <- func() { f(); close(done) }
	n.q.Wake()
	select {
	case <-done:
	case <-time.After(patience):
		n.t.Fatalf("server %d does nothing", n.self.Server)
	}
}

func (n *replica) await(what string, f func() bool) {
	n.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		ok, s := false, ""
		n.do(func() {
			ok = f()
			s = fmt.Sprintf("committed %d, log %d, done %d, dropped %d", n.m.Committed(), n.m.LogOps(), n.done, n.dropped)
			for _, l := range n.links {
				s += fmt.Sprintf("; to %d: %+v", l.cfg.Peer.Server, l.Stats())
			}
		})
		if ok {
			return
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("server %d: not %s: %s", n.self.Server, what, s)
		}
		time.Sleep(time.Millisecond)
	}
}

// link joins two nodes; from dials.
func link(t *testing.T, from, to *replica, opt Options) {
	t.Helper()
	nodes := [2]*replica{from, to}
	var links [2]*Link
	var eps [2]rdma.Endpoint
	for i, n := range nodes {
		cfg := Config{Group: testGroup, Self: n.self, Peer: nodes[1-i].self, Dials: i == 0, Node: -1, Options: opt,
			On: func(m *chain.Message) { n.m.Step(*m) }}
		n.do(func() { n.ids++; cfg.ID = n.ids })
		var err error
		if links[i], err = New(n.d, cfg); err != nil {
			t.Fatal(err)
		}
		if eps[i], err = n.d.NewEndpoint(links[i].Endpoint(n.q)); err != nil {
			t.Fatal(err)
		}
	}
	connect(t, eps[0], eps[1])
	for i, n := range nodes {
		n.do(func() {
			n.links[links[i].cfg.ID] = links[i]
			if err := links[i].Attach(eps[i]); err != nil {
				t.Error(err)
			}
		})
	}
	for _, i := range []int{1, 0} {
		offer := links[1-i].Offer()
		nodes[i].do(func() {
			if err := links[i].Ready(offer); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMachines runs a chain of three machines over links, breaks one of them in the
// middle of pushes and makes it anew, and has a fourth node join behind: all do the
// same ops.
func TestMachines(t *testing.T) {
	for name, open := range transports() {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed(t), 5))
			opt := chain.Options{ChunkBytes: 20_000, InflightBytes: 100_000, LogOps: 20, FeedBytes: 300_000}
			small := Options{RingBytes: 128 << 10, BackBytes: minRing, Depth: minDepth}
			var nodes []*replica
			d := open(t)
			for i := range 4 {
				nodes = append(nodes, newReplica(t, i, d(), opt))
			}
			head := nodes[0]
			members := make([]chain.Member, len(nodes))
			for i, n := range nodes {
				members[i] = chain.Member{Node: n.self, Joined: 1}
				defer func() { n.do(func() { n.quit = true }); <-n.gone }()
			}
			adopt := func(cfg chain.Config) {
				for _, n := range nodes {
					n.do(func() { n.m.Adopt(cfg); n.m.Lease(true) })
				}
			}
			push := func(count int) {
				head.do(func() {
					if head.bodies == nil {
						head.bodies = [][]byte{nil} // Enter
					}
					for range count {
						head.bodies = append(head.bodies, noise(r, 1+r.IntN(1<<(4+r.IntN(14)))))
					}
				})
			}
			link(t, nodes[0], nodes[1], small)
			link(t, nodes[1], nodes[2], small)
			adopt(chain.Config{Epoch: 1, Began: 1, Chain: members[:3]})
			push(100)
			head.await("30 pushes done", func() bool { return head.done > 30 })
			nodes[1].do(func() {
				for id, l := range nodes[1].links {
					if l.cfg.Peer == head.self {
						nodes[1].unlink(id)
					}
				}
			})
			head.do(func() {
				for id := range head.links {
					head.unlink(id)
				}
			})
			link(t, nodes[0], nodes[1], small)
			head.await("all pushes done", func() bool { return head.done == 101 })

			members[3].Joined = 2
			link(t, nodes[2], nodes[3], small)
			push(50)
			adopt(chain.Config{Epoch: 2, Began: 1, Chain: members[:3], Joiner: &members[3]})
			nodes[2].await("caught up", func() bool { return nodes[2].caught })
			adopt(chain.Config{Epoch: 3, Began: 1, Chain: members})
			push(50)
			head.await("all pushes done", func() bool { return head.done == 201 })
			for _, n := range nodes {
				n.await("at the end", func() bool { return n.m.Committed() == 201 })
			}
			for _, n := range nodes {
				n.do(func() {
					if n.tape.hash != head.tape.hash || n.tape.was != head.tape.was || len(n.tape.rows) != 200 {
						t.Errorf("server %d did other ops: %d rows", n.self.Server, len(n.tape.rows))
						return
					}
					for i, row := range n.tape.rows {
						if !bytes.Equal(row, head.bodies[1+i]) {
							t.Errorf("server %d: row %d is another", n.self.Server, i)
						}
					}
				})
			}
		})
	}
}
