package server

import (
	"strings"
	"testing"

	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// refusedPush checks that a push was refused, why, and all members are whole. It is not counted.
func (k *chainWorker) refusedPush(code psmsg.Code, why string) {
	k.w.t.Helper()
	if code != psmsg.CodeNoMemory {
		k.w.t.Fatalf("a push that there is no room for was answered %v", code)
	}
	k.seq[0]--
	var st psmsg.StatsReply
	k.call(0, psmsg.MethodStats, struct{}{}, &st)
	if !strings.Contains(st.Refusal, why) {
		k.w.t.Errorf("the reason is %q", st.Refusal)
	}
	for i, s := range k.w.members(0) {
		if failed := s.ChainStats().Failed; failed != "" {
			k.w.t.Errorf("replica %d has failed: %s", i, failed)
		}
	}
}

func rangeOf(first, n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(first + i)
	}
	return keys
}

// A push that makes more rows than there is room for is refused before it is ordered: the
// group serves what it has, and takes pushes to it.
func TestChainRefusesNewRows(t *testing.T) {
	const batch = 500
	memory := func(c *Config) { c.MaxBytes = 4 << 20 }
	disk := func(c *Config) {
		c.MaxBytes, c.Storage = 16<<20, &Storage{BatchRows: 32, Memory: map[uint32]int64{testTable: 256 << 10}}
	}
	limit := func(c *Config) {
		c.MaxBytes, c.Storage = 64<<20, &Storage{BatchRows: 32, LimitBytes: 2 << 20, Memory: map[uint32]int64{testTable: 2 << 20}}
	}
	for name, c := range map[string]struct {
		staleness int
		change    func(*Config)
		of        string
	}{"bsp": {0, memory, "--mem-budget"}, "asp": {Async, memory, "--mem-budget"}, "bsp disk": {0, disk, "--mem-budget"}, "asp disk": {Async, disk, "--mem-budget"},
		"bsp full disk": {0, limit, "--ssd-limit"}, "asp full disk": {Async, limit, "--ssd-limit"}} {
		t.Run(name, func(t *testing.T) {
			w := newChainWorld(t, chainWorldConfig{transport: "shm", groups: 1, workers: 1, staleness: c.staleness, tables: []table.Spec{sgdTable()}, change: c.change}, 2, []int{0, 1})
			k := w.worker(0, 1)
			step, code := uint64(0), psmsg.CodeOK
			for code == psmsg.CodeOK && step < 1000 {
				if code = k.push(0, step, rangeOf(int(step)*batch, batch), 1, true); code == psmsg.CodeOK {
					step++
				}
			}
			t.Logf("%d rows", step*batch)
			k.refusedPush(code, c.of)
			if step == 0 {
				t.Fatal("no rows were taken")
			}
			if code := k.push(0, step, rangeOf(0, batch), 1, true); code != psmsg.CodeOK {
				t.Errorf("a push to rows that there are was answered %v", code)
			}
			for i, v := range k.pull(0, step+1, rangeOf(0, batch), false) {
				if v != -2 {
					t.Fatalf("element %d is %v, want -2", i, v)
				}
			}
			w.alike()
		})
	}
}

// What all workers push in a step of BSP must fit in memory together, whoever comes last;
// the same rows count once.
func TestChainRefusesLargeSteps(t *testing.T) {
	spec := sgdTable()
	spec.Dim = 4 * testDim
	w := newChainWorld(t, chainWorldConfig{transport: "shm", groups: 1, workers: 3, tables: []table.Spec{spec}, change: func(c *Config) {
		c.MaxBytes, c.Storage = 16<<20, &Storage{BatchRows: 32, Memory: map[uint32]int64{testTable: 128 << 10}}
	}}, 2, []int{0, 1})
	most := 0
	must(t, w.nodes[0].servers[0].lanes[0].do(patience, func() {
		most = w.nodes[0].servers[0].lanes[0].tables[testTable].rows.(interface{ Most() int }).Most()
	}))
	n := most * 9 / 20
	if n > 500 {
		t.Fatalf("%d rows fit: too many for this test", most)
	}
	a, b, c := w.worker(0, 1), w.worker(1, 1), w.worker(2, 1)
	for _, k := range []*chainWorker{a, c} {
		if code := k.push(0, 0, rangeOf(0, n), 1, true); code != psmsg.CodeOK {
			t.Fatalf("%d rows of %d were answered %v", n, most, code)
		}
	}
	b.refusedPush(b.push(0, 0, rangeOf(n, n), 1, true), "pushes of one step")
	if code := b.push(0, 0, rangeOf(0, n/8), 1, true); code != psmsg.CodeOK {
		t.Fatalf("fewer rows were answered %v", code)
	}
	w.alike()
}
