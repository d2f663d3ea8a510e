package verbstest

import (
	"context"
	"sync"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/sched/tree"
	"psrt/tiers/table"
)

const (
	moveRows, moveDim = 2048, 256
	moveFloats        = 1 << 19
	moveRounds        = 3
)

// moving is a server and a worker, each with devices of its own.
type moving struct {
	t      *testing.T
	server *server.Server
	hosts  [2]*dial.Host // the server's, the worker's
	client *client.Client
	rows   *client.Rows
	dense  *client.Dense
	call   client.Call
}

func newMoving(t *testing.T) *moving {
	t.Helper()
	m := &moving{t: t}
	token := []byte("a token of this test alone, long enough")
	for i := range m.hosts {
		h, err := dial.New(dial.Config{Transport: "verbs", Token: token, StepTimeout: time.Minute})
		m.must(err)
		m.hosts[i] = h
		t.Cleanup(func() { _ = h.Close() })
	}
	list := []place.Server{{ID: 0, Weight: 1, Lanes: 1}}
	where, err := place.New(1, place.DefaultSlots, list)
	m.must(err)
	_, leaves := tree.Leaves(1 << 14)
	shares, err := tree.Shares(leaves, 1)
	m.must(err)
	merges, err := tree.Top(shares)
	m.must(err)
	sgd := table.Optimizer{Kind: table.SGD, LR: 1}
	spec := table.Spec{Name: "moved", ID: 1, Dim: moveDim, Init: table.Init{Kind: "zero"}, Optimizer: sgd}
	m.server, err = server.New(server.Config{ID: 0, Map: where, Host: m.hosts[0], Listen: "127.0.0.1:0", Workers: 1,
		Staleness: server.Async, Merges: merges, Seed: 1, Tables: []table.Spec{spec}, Node: -1,
		Dense: server.DenseConfig{Ranges: []densemap.Range{{Offset: 0, Len: moveFloats, Rule: "grad"}}, Optimizer: sgd, Init: make([]float32, moveFloats)}})
	m.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := m.server.Serve(ctx); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); serving.Wait() })
	list[0].Addr = m.server.Addr()
	where, err = place.New(1, place.DefaultSlots, list)
	m.must(err)
	m.client, err = client.Open(ctx, client.Config{Worker: 0, Map: where, Host: m.hosts[1], Timeout: time.Minute, Node: -1})
	m.must(err)
	t.Cleanup(m.client.Close)
	m.rows, err = m.client.NewRows(spec)
	m.must(err)
	t.Cleanup(m.rows.Close)
	m.dense, err = m.client.NewDense(moveFloats, moveFloats/densemap.BlockFloats)
	m.must(err)
	t.Cleanup(m.dense.Close)
	keys := make([]uint64, moveRows)
	for i := range keys {
		keys[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	m.must(m.rows.Plan([][]uint64{keys}, [][]int32{make([]int32, moveRows)}))
	return m
}

func (m *moving) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// done waits for the call that err is of.
func (m *moving) done(err error) {
	m.t.Helper()
	m.must(err)
	m.must(m.client.Wait(&m.call))
}

// device is what the devices of a host were given by copies, and sent.
func (m *moving) device(host int) (copied, sent uint64) {
	for _, d := range m.hosts[host].Domains() {
		s := d.Stats()
		copied, sent = copied+s.CopiedBytes(), sent+s.SentBytes+s.ReceivedBytes
	}
	return copied, sent
}

// TestMoves: over verbs no byte of rows, gradients and dense values is copied by
// a worker, or beneath it by the transport; a server gathers the rows of a pull
// and copies nothing else.
func TestMoves(t *testing.T) {
	needsDevice(t)
	m := newMoving(t)
	clock := uint64(0)
	m.done(m.client.Pull(m.rows, 0, 0, &m.call)) // rows are born
	const sparse, dense = moveRows * moveDim * 4, moveFloats * 4
	for _, c := range []struct {
		what    string
		payload uint64 // of one round
		server  psmsg.CopiedBytes
		do      func() error
	}{
		{"sparse pull", sparse, psmsg.CopiedBytes{Gathered: sparse * moveRounds}, func() error { return m.client.Pull(m.rows, clock, client.AnyClock, &m.call) }},
		{"sparse push", sparse, psmsg.CopiedBytes{}, func() error { clock++; return m.client.Push(m.rows, clock-1, true, &m.call) }},
		{"dense push", dense, psmsg.CopiedBytes{}, func() error { return m.client.PushDense(m.dense, clock, true, &m.call) }},
		{"dense pull", dense, psmsg.CopiedBytes{}, func() error { return m.client.PullDense(m.dense, clock, client.AnyClock, &m.call) }},
	} {
		was, err := m.server.Stats()
		m.must(err)
		mine := m.client.Copied()
		copied0, sent0 := m.device(0)
		copied1, sent1 := m.device(1)
		moves := movedBytes()
		for range moveRounds {
			m.done(c.do())
		}
		moves = movedBytes() - moves
		now, err := m.server.Stats()
		m.must(err)
		want := was.Copied
		want.Add(c.server)
		if now.Copied != want || m.client.Copied() != mine {
			t.Errorf("%s: counted %+v at the server and %+v at the worker, want %+v and %+v", c.what, now.Copied, m.client.Copied(), want, mine)
		}
		copied2, sent2 := m.device(0)
		copied3, sent3 := m.device(1)
		copied, sent := copied2-copied0+copied3-copied1, sent2-sent0+sent3-sent1
		all := c.payload * moveRounds
		t.Logf("%s: %d bytes of payload, %d sent and received, %d of them copied by the transport, %d moved by Go", c.what, all, sent, copied, moves)
		// Messages go inline, and the CPU takes them there.
		if sent < all || copied > all/100 {
			t.Errorf("%s: of %d bytes %d were sent and received, %d of them copied by the transport: want all, and less than 1 %%", c.what, all, sent, copied)
		}
		if moves > all/20 {
			t.Errorf("%s: Go moved %d bytes for %d of payload, uncounted: want less than 5 %%", c.what, moves, all)
		}
	}
}
