package rdmatest

import (
	"testing"

	"psrt/csrc/seedtest"
	"psrt/rdma"
)

// testSharedRecv: endpoints whose receives may be pooled keep their own IDs,
// order and depth, and the end of one takes nothing from the others.
func testSharedRecv(t *testing.T, f Factory) {
	const n, depth, rounds = 5, 4, 30
	r := seedtest.Rand(t)
	da, db := f.New(t)
	t.Cleanup(func() { da.Close(); db.Close() })
	var s shape
	ma, _ := memories(t, f, &s)
	q, err := db.NewQueue(2 * n * depth)
	if err != nil {
		t.Fatal(err)
	}
	server := &side{t: t, q: q}
	clients, eps := make([]*side, n), make([]rdma.Endpoint, n)
	for i := range clients {
		clients[i] = newSide(t, da, ma, shape{depth: depth, access: rdma.AccessAll}, "bob")
		eps[i], err = db.NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: depth, RecvDepth: depth, Peer: "alice", SharedRecv: true})
		if err != nil {
			t.Fatal(err)
		}
		connect(t, clients[i].ep, eps[i])
		clients[i].other, server.other = server, nil
	}
	posted, arrived := make([]uint64, n), make([]uint64, n)
	fill := func(i int) {
		t.Helper()
		rs := make([]rdma.Recv, 2*depth)
		for k := range rs {
			rs[k].ID = uint64(i)<<32 | (posted[i] + uint64(k))
		}
		k, err := eps[i].PostRecv(rs)
		if err != nil {
			t.Fatal(err)
		}
		posted[i] += uint64(k)
		if posted[i]-arrived[i] != depth {
			t.Fatalf("endpoint %d: %d receives are posted at depth %d", i, posted[i]-arrived[i], depth)
		}
	}
	play := func(live []int) {
		t.Helper()
		for range rounds {
			sent := 0
			for _, i := range live {
				fill(i)
				for k := range r.IntN(depth + 1) {
					clients[i].post(rdma.WR{Op: rdma.OpWriteImm, Imm: uint32(arrived[i]) + uint32(k), Signaled: true})
					sent++
				}
			}
			for range sent {
				c := server.next()
				i := int(c.ID >> 32)
				if c.Status != rdma.StatusOK || c.Op != rdma.OpRecvImm || c.Endpoint != eps[i] || c.ID&0xffffffff != arrived[i] || c.Imm != uint32(arrived[i]) {
					t.Fatalf("endpoint %d: %+v, want arrival %d", i, c, arrived[i])
				}
				arrived[i]++
				if c := clients[i].next(); c.Status != rdma.StatusOK {
					t.Fatalf("client %d: %v", i, c.Err)
				}
			}
		}
	}
	play([]int{0, 1, 2, 3, 4})
	fill(1)
	eps[1].Close()
	for arrived[1] < posted[1] {
		if c := server.next(); c.Endpoint != eps[1] || c.Status != rdma.StatusFlushed || c.ID != 1<<32|arrived[1] {
			t.Fatalf("after the close of endpoint 1: %+v, want receive %d flushed", c, arrived[1])
		}
		arrived[1]++
	}
	play([]int{0, 2, 3, 4})
}
