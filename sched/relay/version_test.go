package relay

import (
	"encoding/json"
	"errors"
	"testing"

	"psrt/rdma/sim"
	"psrt/sched/chain"
)

// Servers of two releases speak the older one's version, whichever dialled, and each
// is told in the other's words. One from before versions were agreed on says only what
// it speaks.
func TestVersions(t *testing.T) {
	for _, c := range []struct{ a, b, want int }{{1, 1, 1}, {1, 2, 1}, {2, 1, 1}, {2, 2, 2}, {3, 2, 2}} {
		d := simulated(t, sim.Config{})
		got := 0
		a := newEnd(t, d(), Config{Self: nodeA, Peer: nodeB, Dials: true, Options: Options{Speak: c.a}, On: func(*chain.Message) { got++ }})
		b := newEnd(t, d(), Config{Self: nodeB, Peer: nodeA, Options: Options{Speak: c.b}, On: func(*chain.Message) { got++ }})
		connect(t, a.ep, b.ep)
		for _, e := range []*end{a, b} {
			if err := e.link.Attach(e.ep); err != nil {
				t.Fatal(err)
			}
		}
		said, _ := json.Marshal(a.link.Offer())
		var heard Offer
		if err := json.Unmarshal(said, &heard); err != nil {
			t.Fatal(err)
		}
		if c.a == 1 {
			heard.Newest = 0 // as a program says it that knows one version
		}
		if err := b.link.Ready(heard); err != nil {
			t.Fatal(err)
		}
		b.link.Send(&chain.Message{Kind: chain.Ack, From: nodeB, To: nodeA, Group: testGroup, Epoch: 1, Committed: 1})
		b.mustStep() // it comes before a is ready
		a.mustStep()
		if err := a.link.Ready(b.link.Offer()); err != nil {
			t.Fatal(err)
		}
		a.link.Send(&chain.Message{Kind: chain.Ack, From: nodeA, To: nodeB, Group: testGroup, Epoch: 1, Committed: 1})
		until(t, func() bool { return got == 2 }, a, b)
		for _, e := range []*end{a, b} {
			if v := e.link.Stats().Version; v != c.want {
				t.Errorf("%d and %d speak %d, want %d", c.a, c.b, v, c.want)
			}
		}
	}
}

// A release that has left the other's versions behind is refused by name.
func TestNoCommonVersion(t *testing.T) {
	for _, o := range []Offer{{Version: 7, Newest: 9}, {}} {
		if err := o.check(Newest); !errors.Is(err, ErrProtocol) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
