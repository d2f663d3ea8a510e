package tcp

import (
	"testing"
	"time"

	"psrt/rdma"
)

// The deadline of Connect is for connecting: an endpoint lives on when it has
// passed, idle or busy, on both sides.
func TestConnectDeadlinePasses(t *testing.T) {
	const within = 5 * time.Second
	a, b := newPair(t, pairConfig{streams: 2, connectWithin: within})
	time.Sleep(within + 300*time.Millisecond)
	for round := range 3 {
		for _, way := range [][2]*side{{a, b}, {b, a}} {
			from, to := way[0], way[1]
			to.recv(rdma.Recv{ID: 1})
			from.post(rdma.WR{ID: 2, Op: rdma.OpWriteImm, Signaled: true, Imm: uint32(round), Local: from.mem[:100_000], Remote: to.reg.Remote().Slice(0, 100_000)})
			if c := to.want(1, rdma.StatusOK); c.Imm != uint32(round) {
				t.Fatalf("immediate %d, want %d", c.Imm, round)
			}
			from.want(2, rdma.StatusOK)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
