package replica

import (
	"encoding/json"
	"strings"
	"testing"

	"psrt/sched/psmsg"
)

// Who only reads is led to any member of a group's chain, and to no other server; a
// server takes so many queue pairs of workers and no more, and counts those that end.
func TestReadersAndQueuePairs(t *testing.T) {
	c := three(t)
	m := c.chains()
	knock := func(server int, reads bool) error {
		t.Helper()
		hello, err := json.Marshal(psmsg.Hello{Worker: 0, Client: 1, Chained: true, Group: 0, Epoch: m.Epoch, Reads: reads}.Says())
		if err == nil {
			_, err = c.dial(server, hello, 1)
		}
		if err == nil {
			t.Fatal("the fake group takes a worker")
		}
		return err
	}
	for id := range 3 {
		_, moved := psmsg.MovedIn(knock(id, true))
		if in := m.Groups[0].Position(id) >= 0; moved == in {
			t.Errorf("server %d, in the chain %v: a reader is told moved %v", id, in, moved)
		}
	}
	head := m.Groups[0].Chain[0].Server
	p := c.procs[head].m
	most := func(n int) {
		p.mu.Lock()
		p.cfg.QueuePairs = n
		p.mu.Unlock()
	}
	gone := func() {
		t.Helper()
		c.until("it is counted no more", func() bool { return p.State().QueuePairs == 0 })
	}
	gone() // the reader's: its refusal reaches it before the server has let go of it
	for _, reads := range []bool{false, true} {
		most(0)
		if err := knock(head, reads); !strings.Contains(err.Error(), "0 queue pairs of workers are open, at most 0") || !strings.Contains(err.Error(), "--groups") {
			t.Errorf("refused with %v", err)
		}
		most(1)
		for range 3 { // each has ended when the next one comes
			if err := knock(head, reads); strings.Contains(err.Error(), "queue pairs") {
				t.Errorf("refused with %v", err)
			}
			gone()
		}
	}
}
