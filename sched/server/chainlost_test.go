package server

import (
	"strings"
	"testing"

	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/sched/server/slowtest"
	"psrt/tiers"
	"psrt/tiers/table"
)

// failing has the server that is made as number n, from 0, fail at every look for rows.
func failing(t *testing.T, n int) func(*Config) {
	made := 0
	return func(c *Config) {
		if made++; made != n+1 {
			return
		}
		c.Rows = func(r RowsConfig) (tiers.Rows, error) {
			rows, err := InMemory(r)
			if err != nil {
				return nil, err
			}
			return slowtest.New(rows, slowtest.Config{Seed: 1, FailOneIn: 1, Wake: r.Wake, Report: t.Errorf}, &slowtest.Counts{}), nil
		}
	}
}

// A copy that could not do an op differs from the others. An epoch that has it still, for
// something else changed first, makes it no better: it acknowledges nothing until it is
// cut out.
func TestChainLostCopy(t *testing.T) {
	for name, staleness := range map[string]int{"bsp": 0, "asp": Async} {
		t.Run(name, func(t *testing.T) {
			w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, staleness: staleness,
				tables: []table.Spec{sgdTable()}, change: failing(t, 1)}, 2, []int{0, 1})
			k, keys, lost := w.worker(0, 1), w.keysOf(0, 10), w.nodes[1]
			answered := make(chan psmsg.Code, 1)
			go func() { answered <- k.push(0, 0, keys, 1, true) }()
			failed := func() bool { return lost.servers[0].ChainStats().Failed != "" }
			w.until("a copy fails", failed)
			w.change(0, func(*chain.Config) {})
			if st := lost.servers[0].ChainStats(); !failed() || st.Epoch != 2 {
				t.Errorf("in the next epoch the copy is taken for whole: %+v", st)
			}
			select {
			case code := <-answered:
				t.Fatalf("the push was answered %v, which a member of the chain could not do", code)
			default:
			}
			w.cut(lost)
			if failed() {
				t.Error("who was cut out has nothing, and no failed copy")
			}
			if code := <-answered; code != psmsg.CodeOK && code != psmsg.CodeDuplicate {
				t.Errorf("the push was answered %v", code)
			}
			if v := k.pull(0, 1, keys, false); v[0] != -1 {
				t.Errorf("a row is %v, want -1", v[0])
			}
		})
	}
}

// One that is alone, and cannot do a push, tells the worker, and so with all that follow.
func TestChainFailsAlone(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, tables: []table.Spec{sgdTable()}, change: failing(t, 0)}, 1, []int{0})
	k := w.worker(0, 1)
	for range 3 {
		if code := k.push(0, 0, w.keysOf(0, 10), 1, true); code != psmsg.CodeNoMemory {
			t.Errorf("a push was answered %v, want %v", code, psmsg.CodeNoMemory)
		}
	}
	rep, r := k.ask(0, func(r *raw) psmsg.Request {
		req := r.pull(0, 0, 10)
		req.Keys, req.Values = r.put(0, w.keysOf(0, 10), 0)
		return req
	})
	if rep.Code != psmsg.CodeNoMemory {
		t.Errorf("a pull was answered %v, want %v", rep.Code, psmsg.CodeNoMemory)
	}
	if err := r.call(psmsg.MethodDigest, struct{}{}, &struct{}{}); err == nil || !strings.Contains(err.Error(), "group 0 is lost") {
		t.Errorf("a call was answered %v", err)
	}
}

// A worker whose leaving was done, and not answered, asks the next head.
func TestChainLeavesAgain(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, tables: []table.Spec{sgdTable()}}, 2, []int{0, 1})
	k := w.worker(0, 5)
	k.push(0, 0, w.keysOf(0, 10), 1, true)
	k.call(0, psmsg.MethodLeave, struct{}{}, nil)
	k.lose(0)
	w.cut(w.nodes[0])
	k.call(0, psmsg.MethodLeave, struct{}{}, nil)
	k.lose(0)
	tries := func(client uint64) error {
		k := w.worker(0, client)
		defer k.lose(0)
		_, err := k.at(0)
		return err
	}
	w.until("a process that another one followed is told so", func() bool {
		err := tries(4)
		return err != nil && strings.Contains(err.Error(), "taken over")
	})
	w.until("a newer process is let in", func() bool { return tries(6) == nil })
}

// The last member's disk is full and the other's is not: it leaves, and nothing of what was
// pushed is lost, nor does the push that it could not do go unanswered. (The head refuses what
// its own has no room for: TestChainRefusesNewRows.)
func TestChainFullDisk(t *testing.T) {
	const tail = 1
	made := 0
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, staleness: Async, tables: []table.Spec{sgdTable()}, change: func(c *Config) {
		c.MaxBytes, c.Storage = 32<<20, &Storage{BatchRows: 32, Memory: map[uint32]int64{testTable: 12 << 20}}
		if made == tail {
			c.Storage.LimitBytes = 4 << 20
		}
		made++
	}}, 2, []int{0, 1})
	const rows, most = 8000, 100
	all := w.keysOf(0, rows*most)
	k, full := w.worker(0, 1), w.nodes[tail]
	failed := func() bool { return full.servers[0].ChainStats().Failed != "" }
	pushed, cut := 0, false
	for ; pushed < most && !cut; pushed++ {
		answered := make(chan psmsg.Code, 1)
		go func() { answered <- k.push(0, uint64(pushed), all[pushed*rows:(pushed+1)*rows], 1, true) }()
		w.until("the push is answered, or a disk is full", func() bool { return len(answered) > 0 || failed() })
		if failed() {
			if why := full.servers[0].ChainStats().Failed; !strings.Contains(why, "full") {
				t.Errorf("the copy failed by %s", why)
			}
			w.cut(full)
			cut = true
		}
		if code := <-answered; code != psmsg.CodeOK && code != psmsg.CodeDuplicate {
			t.Fatalf("push %d was answered %v", pushed, code)
		}
	}
	if !cut {
		t.Fatalf("%d rows fit in 12 MiB of memory and a disk of 4 MiB", pushed*rows)
	}
	for i := range pushed {
		for _, v := range k.pull(0, uint64(pushed), all[i*rows:(i+1)*rows], false) {
			if v != -1 {
				t.Fatalf("a row of push %d is %v, want -1", i, v)
			}
		}
	}
}
