package chain

import (
	"slices"
	"testing"
)

// A joiner that takes nothing of its copy is reported, one that takes something is not.
func TestStuckJoiner(t *testing.T) {
	self, joiner := Node{Server: 0, Gen: 1}, Node{Server: 1, Gen: 1}
	m := New(self, 0, Options{StuckTicks: 10}, newSimState(false, 1))
	cfg := Config{Epoch: 1, Began: 1, Chain: []Member{{self, 1}}}
	m.Adopt(cfg)
	cfg.Epoch, cfg.Joiner = 2, &Member{joiner, 2}
	m.Adopt(cfg)
	stuck := func(ticks int) (n int) {
		for range ticks {
			m.Tick()
		}
		for _, r := range m.Outputs().Reports {
			if r.Kind == Stuck {
				n++
				if r.Epoch != 2 || !slices.Equal(r.Nodes, []Node{joiner}) {
					t.Errorf("%+v", r)
				}
			}
		}
		return n
	}
	fed := func(items uint64) { m.Step(Message{Kind: Fed, Epoch: 2, From: joiner, To: self, Seq: items}) }
	if n := stuck(9); n > 0 {
		t.Errorf("%d reports before it was time", n)
	}
	fed(1)
	fed(1) // said again: no progress
	if n := stuck(9); n > 0 {
		t.Errorf("%d reports although it took something", n)
	}
	if n := stuck(3); n != 3 {
		t.Errorf("%d reports in 3 ticks, want one in each", n)
	}
	fed(3)
	if n := stuck(30); n > 0 {
		t.Errorf("%d reports although it has all", n)
	}
}

// What is sent again may be cut otherwise: a part that begins in what is here is taken
// from there on.
func TestReceiveOverlaps(t *testing.T) {
	head, self := Node{Server: 0, Gen: 1}, Node{Server: 1, Gen: 1}
	m := New(self, 0, Options{}, newSimState(false, 1))
	m.Adopt(Config{Epoch: 1, Began: 1, Chain: []Member{{head, 1}, {self, 1}}})
	body := simBody(1, 1, 0)
	if len(body) < 8 {
		t.Fatalf("a body of %d bytes", len(body))
	}
	send := func(off, end int) {
		m.Step(Message{Kind: Data, Epoch: 1, From: head, To: self, Seq: 1, Off: off, Bytes: body[max(0, off):end],
			Header: Header{Seq: 1, Kind: Push, Worker: 1, Client: 1, Push: 1, Size: len(body)}})
	}
	for _, x := range []struct{ off, end, here int }{
		{0, 3, 3}, {4, 6, 3}, {0, 2, 3}, {1, 5, 5}, {-1, 6, 5}, {5, 5, 5}, {5, 6, 6},
	} {
		send(x.off, x.end)
		if op := m.at(1); op == nil || !slices.Equal(op.Body, body[:x.here]) {
			t.Fatalf("after bytes %d to %d: %+v, want the first %d", x.off, x.end, op, x.here)
		}
	}
	if send(0, len(body)); m.Committed() != 1 {
		t.Errorf("the tail has the whole op, and %d are committed", m.Committed())
	}
}
