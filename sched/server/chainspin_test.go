package server

import (
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/chain"
	"psrt/sched/psmsg"
)

// idleChain is a lane of a group that is in no chain as yet.
func idleChain() *chained {
	l := &lane{cfg: &Config{Workers: 1, Chain: &ChainConfig{OnReport: func(chain.Report) {}}}, tables: map[uint32]*tableState{},
		mux: dial.NewMux(16), cmds: make(chan func()), gone: make(chan struct{})}
	l.chain = newChained(l)
	return l.chain
}

// The end of the lookups that a copy waited for is something once, also where the joiner
// has so much on its way that no rows are asked for.
func TestCopyWaitsOnce(t *testing.T) {
	c := idleChain()
	now := time.Now()
	c.copying.waits, c.nextTick = true, now.Add(time.Hour)
	if !c.turn(now) {
		t.Error("a copy does not go on after the lookups that it waited for")
	}
	if c.turn(now) {
		t.Error("a lane with nothing to do does not rest")
	}
}

// A pull of a table that has gone with a copy's state lacks it.
func TestLacksATableThatIsGone(t *testing.T) {
	c := idleChain()
	r := &request{}
	r.Kind, r.Table, r.Seq = psmsg.KindPull, 7, 1
	if !c.l.lacks(r) {
		t.Error("a pull of a table that is not here lacks nothing")
	}
	c.l.tables[7] = &tableState{version: 1}
	if c.l.lacks(r) {
		t.Error("a pull lacks what is here")
	}
}

// What a lane uses is freed by it, however long it is busy; by another when it has ended.
func TestDoOrElse(t *testing.T) {
	for _, ends := range []bool{false, true} {
		l := idleChain().l
		did := make(chan string, 1000) // it may be asked for again, and done
		over := make(chan struct{})
		go func() {
			defer close(over)
			l.doOrElse(time.Millisecond, func() { did <- "lane" }, func() { did <- "other" })
		}()
		for range 5 { // meanwhile it is refused, too
			if l.do(2*time.Millisecond, func() {}) == nil {
				t.Fatal("a lane that takes nothing did something")
			}
		}
		want := "lane"
		if ends {
			want = "other"
			close(l.gone)
		} else {
			select {
			case who := <-did:
				t.Fatalf("while the lane is busy: done by the %s", who)
			case f := <-l.cmds:
				f()
			}
		}
		if who := <-did; who != want {
			t.Errorf("ended %v: done by the %s, want the %s", ends, who, want)
		}
		if !ends { // one that was not waited for to its end is asked for again
			go func() {
				for f := range l.cmds {
					f()
				}
			}()
		}
		<-over
		if !ends {
			close(l.cmds)
		}
	}
}

// A copy that loses its state serves no readers of it.
func TestClearEndsReaders(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1}, 2, []int{0, 1})
	_, err := w.reader(w.nodes[1], 0, 0)
	must(t, err)
	l := w.nodes[1].servers[0].lanes[0]
	before, after := false, true
	must(t, l.do(commandTimeout, func() {
		before = l.readers[0] != nil
		l.chain.dirty = true
		l.chain.Clear()
		after = l.readers[0] != nil
	}))
	if !before || after {
		t.Errorf("a reader is served before: %v, after: %v", before, after)
	}
}
