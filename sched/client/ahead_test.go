package client

import (
	"testing"
	"time"

	"psrt/sched/psmsg"
)

// came is how often worker 0 has called a server for group 0.
func (f *fake) cameFor(ahead bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.came[psmsg.Hello{Ahead: ahead}]
}

func (c *Client) aheadsNow() (made int) {
	c.aheads.mu.Lock()
	defer c.aheads.mu.Unlock()
	for _, x := range c.aheads.by {
		if x.conn != nil {
			made++
		}
	}
	return made
}

// eventually waits for what other goroutines do.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: it has not come about", what)
		}
	}
}

// A worker calls who is to lead a group before that one does, and asks it over that
// connection from then on.
func TestCallsTheNextHead(t *testing.T) {
	cl := newCluster(t, 2, 1)
	c := cl.open(0)
	was := cl.headOf(0)
	cl.aim(0)
	eventually(t, "a connection to the next head", func() bool { return c.aheadsNow() == 1 })
	cl.moveHead(0)
	now := cl.headOf(0)
	if now == was {
		t.Fatal("the head has not changed")
	}
	must(t, c.CallServer(t.Context(), 0, psmsg.MethodStats, struct{}{}, &psmsg.StatsReply{}))
	eventually(t, "it is used", func() bool { return c.aheadsNow() == 0 && c.Links()[0].Server == now.node.Server })
	if ahead, plain := now.cameFor(true), now.cameFor(false); ahead != 1 || plain != 0 {
		t.Errorf("the new head was called %d times ahead and %d times later, want once, ahead", ahead, plain)
	}
}

// Who shall not lead any more is hung up on, and who never answers keeps nobody from the
// head that there is.
func TestCallsTheNextHeadInVain(t *testing.T) {
	cl := newCluster(t, 3, 1)
	c := cl.open(0)
	cl.aim(0)
	eventually(t, "a connection to the next head", func() bool { return c.aheadsNow() == 1 })
	m, _ := cl.now()
	plain := *m
	plain.Aim = nil
	cl.publish(&plain, m.Epoch+1)
	eventually(t, "it is given up", func() bool { return c.aheadsNow() == 0 })

	heir := cl.servers[m.Node(m.Groups[0].Chain[1].Server)]
	heir.freeze()
	cl.aim(0)
	time.Sleep(20 * time.Millisecond) // it is being called
	cl.cut(heir.node)                 // another one leads later
	cl.moveHead(0)
	must(t, c.CallServer(t.Context(), 0, psmsg.MethodStats, struct{}{}, &psmsg.StatsReply{}))
	eventually(t, "nobody is called ahead", func() bool { return c.aheadsNow() == 0 })
}
