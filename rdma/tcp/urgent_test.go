package tcp

import (
	"syscall"
	"testing"

	"psrt/rdma"
)

// TestUrgentLinks: a link goes in front of others until it has carried more than a little at
// once, and only that one does not any more.
func TestUrgentLinks(t *testing.T) {
	for _, cover := range []Cover{CoverNone, CoverAll} {
		a, b := newPair(t, pairConfig{streams: 1, cover: cover})
		x, y := a.ep.(*endpoint), b.ep.(*endpoint)
		check := func(when string, want ...int) {
			t.Helper()
			for i, p := range []*port{x.ask[0].p, x.answer[0].p, y.ask[0].p, y.answer[0].p} {
				var got int
				var err error
				if failed := p.raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_PRIORITY) }); failed != nil || err != nil {
					t.Fatal(failed, err)
				}
				if got != want[i] {
					t.Errorf("%s link %d has priority %d, want %d", when, i, got, want[i])
				}
			}
		}
		write := func(id uint64, n int) {
			a.post(rdma.WR{ID: id, Op: rdma.OpWrite, Signaled: true, Local: a.mem[:n], Remote: b.reg.Remote().Slice(0, uint64(n))})
			a.want(id, rdma.StatusOK)
		}
		check("at first", urgent, urgent, urgent, urgent)
		write(1, 1<<10)
		check("after a small write", urgent, urgent, urgent, urgent)
		write(2, 4*urgentBytes)
		check("after a long write", 0, urgent, urgent, urgent)
		write(3, 1<<10)
		check("after a small write again", 0, urgent, urgent, urgent)
		a.post(rdma.WR{ID: 4, Op: rdma.OpRead, Signaled: true, Local: a.mem[:4*urgentBytes], Remote: b.reg.Remote().Slice(0, 4*urgentBytes)})
		a.want(4, rdma.StatusOK)
		check("after a long read", 0, urgent, urgent, 0)
	}
}
