package server

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"psrt/csrc/kernels"
	"psrt/csrc/seedtest"
	"psrt/rdma"
	"psrt/sched/psmsg"
	"psrt/tiers"
)

// counting is a queue that gives a lane what its worker has completed, and
// counts how often the lane looks.
type counting struct {
	rdma.Domain
	rdma.Queue
	ep    *fakeWorker
	looks int
}

func (c *counting) Caps() rdma.Caps                  { return rdma.Caps{} }
func (c *counting) NewQueue(int) (rdma.Queue, error) { return c, nil }
func (c *counting) Wait(time.Time) error             { return rdma.ErrDeadline }
func (c *counting) Wake()                            {}
func (c *counting) Close() error                     { return nil }
func (c *counting) Poll(cs []rdma.Completion) (n int) {
	c.looks++
	n = copy(cs, c.ep.done)
	c.ep.done = c.ep.done[n:]
	return n
}

// TestLargePushesKeepFetching: while a lane applies a push of many groups, others
// go on landing: it looks between groups, and asks for more.
func TestLargePushesKeepFetching(t *testing.T) {
	l, s, ep := newDoor(t, fetchedAsGranted)
	c := &counting{ep: ep}
	_, err := l.mux.Queue(c)
	must(t, err)
	const groups = 9
	rows := groups * groupFloats / testDim
	big := &s.reqs[0]
	for range rows {
		big.keys = append(big.keys, uint64(len(big.keys)))
	}
	big.Request = psmsg.Request{Kind: psmsg.KindPush, Seq: 1, Table: testTable, Rows: uint32(rows)}
	big.grads = make([]float32, rows*testDim)
	big.busy = true
	if !l.resolved(big) || !l.resolveRows(big) {
		t.Fatal("no rows")
	}
	// Another push is announced, and what the first grants bring is on its way.
	other := psmsg.Request{Kind: psmsg.KindPush, Slot: 1, Seq: 2, Table: testTable, Rows: 1 << 16,
		Values: rdma.RemoteRange{Len: 1 << 16 * testDim * 4}}
	b := make([]byte, psmsg.RequestBytes)
	other.Encode(b)
	copy(s.slotBytes(1), b)
	l.complete(&rdma.Completion{ID: wrID(s.id, 0), Op: rdma.OpRecvImm, Imm: 1, Bytes: len(b)})
	l.fetchGranted()
	left, asked := s.reqs[1].fetch.left, len(ep.done)
	if left == 0 || asked == 0 {
		t.Fatalf("%d bytes to fetch, %d reads posted", left, asked)
	}
	l.applySparse(l.tables[testTable], []*request{big})
	if c.looks != groups-1 {
		t.Errorf("%d looks while %d groups were applied, want %d", c.looks, groups, groups-1)
	}
	if now := s.reqs[1].fetch.left; now >= left || len(ep.done) == 0 {
		t.Errorf("of %d bytes %d are still to fetch, %d reads are under way: the link stood still", left, now, len(ep.done))
	}
}

// TestGroupsAddNothing: merged and single pushes give the same bits whole and in
// groups.
func TestGroupsAddNothing(t *testing.T) {
	rng := seedtest.Rand(t)
	const vocabulary, sources = 3 * groupFloats / testDim, 3
	l, s, _ := newDoor(t, fetchedAsGranted)
	tab := l.tables[testTable]
	whole := make([]float32, vocabulary*testDim) // by key, as the rule adds it
	for range 3 {
		var due []*request
		var srcs [][]float32
		var idx [][]int32
		var merges []kernels.Merge
		for i := range sources {
			r := &request{s: s}
			at := slices.Repeat([]int32{-1}, vocabulary)
			for _, k := range rng.Perm(vocabulary)[:rng.IntN(vocabulary)] {
				at[k] = int32(len(r.keys))
				r.keys = append(r.keys, uint64(k))
			}
			r.Request = psmsg.Request{Kind: psmsg.KindPush, Table: testTable, Rows: uint32(len(r.keys)), Slot: uint32(i)}
			r.grads = normal(rng, len(r.keys)*testDim)
			r.Seq = 1
			if !l.resolved(r) || !l.resolveRows(r) {
				t.Fatal("no rows")
			}
			due, srcs, idx = append(due, r), append(srcs, r.grads), append(idx, at)
			if i > 0 {
				merges = append(merges, kernels.Merge{Dst: 0, Src: int32(i)})
			}
		}
		sum := make([]float32, len(whole))
		kernels.TreeSumRows(sum, testDim, vocabulary, srcs, idx, merges)
		for i := range whole {
			whole[i] -= sum[i] // SGD of rate 1
		}
		if n := l.applyMerged(tab, due); n != 0 {
			t.Fatalf("%d rows refused", n)
		}
	}
	keys, rows := make([]uint64, vocabulary), make([]uint32, vocabulary)
	for k := range keys {
		keys[k] = uint64(k)
	}
	if look := (tiers.Lookup{Keys: keys, Rows: rows}); !tab.rows.Start(&look) || look.Err != nil {
		t.Fatal(look.Err)
	}
	got := make([]float32, len(whole))
	tab.rows.Gather(rows, got)
	for i := range got {
		if got[i] != whole[i] {
			t.Fatalf("value %d is %v, whole %v", i, got[i], whole[i])
		}
	}
}

func normal(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}
