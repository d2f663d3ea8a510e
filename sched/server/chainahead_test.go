package server

import (
	"slices"
	"testing"
	"time"

	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// ahead is a connection of the worker's to a member that does not lead the group yet.
func (k *chainWorker) ahead(group int, to chain.Node) *raw {
	k.w.t.Helper()
	addr, _ := k.w.addr(to)
	_, epoch := k.w.head(group)
	r, err := knockAt(k.w.t, k.host, addr, psmsg.Hello{Worker: k.number, Client: k.client, Chained: true, Ahead: true, Group: group, Epoch: epoch}.Says())
	must(k.w.t, err)
	return r
}

// Who called a member before that leads the group goes on there when it does; one that
// says so before the member has heard of it waits.
func TestChainCalledAhead(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, tables: []table.Spec{sgdTable()}}, 2, []int{0, 1})
	k, keys := w.worker(0, 5), w.keysOf(0, 20)
	k.push(0, 0, keys, 3, true)
	swap := func(c *chain.Config) { slices.Reverse(c.Chain) }
	next := k.ahead(0, w.nodes[1].node)
	w.change(0, func(*chain.Config) {}) // others come and go
	if err := next.open(); err == nil {
		t.Fatal("who leads nothing lets a worker push")
	} else if _, moved := psmsg.MovedIn(err); !moved {
		t.Fatalf("it says %v, want that the group is elsewhere", err)
	}
	opened := make(chan error, 1)
	go func() {
		var rep psmsg.OpenReply
		err := next.call(psmsg.MethodOpen, psmsg.OpenRequest{Replies: next.replies(), Since: 3}, &rep)
		if err == nil {
			next.landing, next.why = rep.Landing[0], w.describe
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("it was opened before the server led: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	k.lose(0)
	w.change(0, swap)
	must(t, <-opened)
	k.raws[0] = next
	k.push(0, 1, keys, 3, true)
	w.alike()
	if n := w.nodes[1].servers[0].lanes[0].stats.pushes; n == 0 {
		t.Error("nothing was pushed over it")
	}

	// A chain in which it leads no more ends it, as it ends all others.
	back := k.ahead(0, w.nodes[0].node)
	w.change(0, swap)
	w.until("the deposed head hangs up", func() bool {
		select {
		case <-next.conn.Done():
			return true
		default:
			return false
		}
	})
	must(t, back.open())
	back.close()
}

// A member that is not to lead after all says so to who waits for it.
func TestChainCalledAheadInVain(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, tables: []table.Spec{sgdTable()}}, 3, []int{0, 1, 2})
	k := w.worker(0, 5)
	next := k.ahead(0, w.nodes[1].node)
	defer next.close()
	opened := make(chan error, 1)
	go func() {
		opened <- next.call(psmsg.MethodOpen, psmsg.OpenRequest{Replies: next.replies(), Since: 2}, &psmsg.OpenReply{})
	}()
	time.Sleep(20 * time.Millisecond)
	w.change(0, func(c *chain.Config) { c.Chain[0], c.Chain[2] = c.Chain[2], c.Chain[0] })
	if _, moved := psmsg.MovedIn(<-opened); !moved {
		t.Error("it does not say that another one leads")
	}
}

// A worker that called ahead and goes is not missed where it never pushed, also when the
// server leads by then: it may have left the job.
func TestChainCalledAheadIsNotMissed(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, tables: []table.Spec{sgdTable()}}, 2, []int{0, 1})
	k, keys := w.worker(0, 5), w.keysOf(0, 20)
	k.push(0, 0, keys, 3, true)
	next, s := k.ahead(0, w.nodes[1].node), w.nodes[1].servers[0]
	must(t, k.raws[0].call(psmsg.MethodLeave, struct{}{}, &struct{}{}))
	w.change(0, func(c *chain.Config) { slices.Reverse(c.Chain) })
	next.close()
	guests := func() (guests, away int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.guests), len(s.away)
	}
	w.until("its connection ends", func() bool { n, _ := guests(); return n == 0 })
	time.Sleep(20 * time.Millisecond)
	if _, away := guests(); away != 0 {
		t.Error("who has left is waited for, and the job would end without it")
	}
}
