package server

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/tree"
	"psrt/tiers/table"
)

const (
	testDim   = 4
	testDense = 32
	testTable = 7
	// rawBytes is what a raw worker lends: replies, then keys, then values.
	rawBytes  = 1 << 20
	rawKeys   = 1 << 16
	rawValues = 1 << 17
)

// target is a server of one lane that workers without manners talk to.
type target struct {
	*Server
	t         *testing.T
	transport string
	lost      chan int // OnWorkerLost
	hungUp    chan int // OnHungUp
}

var testToken = []byte("a token of this test alone")

func newTarget(t *testing.T, transport string, workers, staleness int) *target {
	t.Helper()
	return newTargetWithin(t, transport, workers, staleness, patience)
}

// newTargetWithin hangs up on who has not opened its sessions within a time.
func newTargetWithin(t *testing.T, transport string, workers, staleness int, open time.Duration) *target {
	t.Helper()
	x := &target{t: t, transport: transport, lost: make(chan int, workers), hungUp: make(chan int, workers)}
	m, err := place.New(1, place.DefaultSlots, []place.Server{{ID: 0, Weight: 1, Lanes: 1}})
	must(t, err)
	_, leaves := tree.Leaves(1 << 14)
	shares, err := tree.Shares(leaves, workers)
	must(t, err)
	merges, err := tree.Top(shares)
	must(t, err)
	sgd := table.Optimizer{Kind: table.SGD, LR: 1}
	x.Server, err = New(Config{Map: m, Host: x.host(), Listen: "127.0.0.1:0", Workers: workers, Staleness: staleness, Merges: merges, Seed: 1,
		Tables: []table.Spec{{Name: "t", ID: testTable, Dim: testDim, Init: table.Init{Kind: "zero"}, Optimizer: sgd}},
		Dense:  DenseConfig{Ranges: []densemap.Range{{Len: testDense, Rule: "grad"}}, Optimizer: sgd, Init: make([]float32, testDense)},
		Node:   -1, ReconnectFor: 2 * hungUpFor, OnWorkerLost: func(w int, _ error) { x.lost <- w }, OnHungUp: func(w int, back func() bool) {
			if !back() {
				x.hungUp <- w
			}
		}})
	must(t, err)
	x.openWithin = open
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := x.Serve(ctx); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return x
}

func (x *target) host() *dial.Host {
	h, err := dial.New(dial.Config{Transport: x.transport, Token: testToken, Listen: "127.0.0.1:0"})
	must(x.t, err)
	x.t.Cleanup(func() { h.Close() })
	return h
}

// raw is a worker that writes whatever it likes.
type raw struct {
	t       *testing.T
	conn    *dial.Conn
	mux     *dial.Mux
	arena   *mem.Arena
	region  rdma.Region
	landing rdma.RemoteRange
	cs      [1]rdma.Completion
	kept    []rdma.Completion // polled by write
	why     func() string     // said where there is no answer; may be nil
}

// knock does the handshake and no more.
func (x *target) knock(worker int, client uint64) (*raw, error) {
	x.t.Helper()
	w, err := knockAt(x.t, x.host(), x.Addr(), psmsg.Hello{Protocol: psmsg.Version, Worker: worker, Client: client})
	if err == nil {
		x.t.Cleanup(w.close)
	}
	return w, err
}

func knockAt(t *testing.T, h *dial.Host, addr string, hello psmsg.Hello) (*raw, error) {
	t.Helper()
	w := &raw{t: t, mux: dial.NewMux(256)}
	text, _ := json.Marshal(hello)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	w.conn, _, err = h.Dial(ctx, addr, text, 1, func(i int, d rdma.Domain) (rdma.EndpointConfig, error) {
		q, err := w.mux.Queue(d)
		return rdma.EndpointConfig{Queue: q, SendDepth: 64, RecvDepth: 64, Peer: "server", OpTimeout: time.Minute}, err
	})
	if err != nil {
		w.mux.Close()
		return nil, err
	}
	w.arena, err = mem.New(mem.Config{Size: rawBytes, Node: -1, Purpose: "raw worker", Share: true})
	must(t, err)
	w.region, err = w.conn.Domains[0].Register(w.arena, rdma.AccessAll, "raw worker")
	must(t, err)
	if _, err = w.conn.Endpoints[0].PostRecv(make([]rdma.Recv, 64)); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *raw) open() error {
	var rep psmsg.OpenReply
	err := w.call(psmsg.MethodOpen, psmsg.OpenRequest{Replies: w.replies()}, &rep)
	if err == nil {
		w.landing = rep.Landing[0]
	}
	return err
}

func (w *raw) call(method string, req, rep any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return w.conn.Call(ctx, method, req, rep)
}

// worker connects as the only client of a worker's number.
func (x *target) worker(n int) *raw {
	x.t.Helper()
	w, err := x.knock(n, uint64(n)+1)
	must(x.t, err)
	must(x.t, w.open())
	return w
}

func (w *raw) close() {
	w.conn.Close()
	if w.region != nil {
		w.region.Close()
	}
	w.mux.Close()
	w.arena.Close()
}

func (w *raw) at(off, n int) rdma.RemoteRange { return w.region.Remote().Slice(uint64(off), uint64(n)) }

func (w *raw) replies() []rdma.RemoteRange {
	return []rdma.RemoteRange{w.at(0, psmsg.Slots*psmsg.ReplySlotBytes)}
}

// write puts bytes into a slot and rings with imm, and returns when the server's
// memory has them.
func (w *raw) write(slot int, imm uint32, b []byte) {
	w.t.Helper()
	local := w.arena.Bytes()[rawBytes-psmsg.SlotBytes:][:len(b)]
	copy(local, b)
	_, err := w.conn.Endpoints[0].Post([]rdma.WR{{Op: rdma.OpWriteImm, Signaled: true, Imm: imm, Local: local,
		Remote: w.landing.Slice(uint64(slot)*w.landing.Len/psmsg.Slots, uint64(len(b)))}})
	if err != nil {
		w.t.Logf("posting: %v", err) // the server has hung up, which wait tells
		return
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); w.mux.Wait(time.Now().Add(5 * time.Millisecond)) {
		for w.mux.Poll(w.cs[:]) > 0 {
			if w.cs[0].Op == rdma.OpWriteImm {
				return
			}
			w.kept = append(w.kept, w.cs[0])
		}
	}
	w.t.Fatal("a write did not complete")
}

// send writes a well formed message, whatever it says.
func (w *raw) send(r psmsg.Request, payload ...byte) {
	w.t.Helper()
	b := make([]byte, psmsg.RequestBytes, psmsg.RequestBytes+len(payload))
	r.Encode(b)
	w.write(int(r.Slot), r.Slot, append(b, payload...))
}

// wait gives the next reply, or ok false when the server has ended the
// connection. Neither within patience fails the test.
func (w *raw) wait(patience time.Duration) (rep psmsg.Reply, ok bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		w.kept = append(w.kept, w.cs[:w.mux.Poll(w.cs[:])]...)
		for len(w.kept) > 0 {
			c := w.kept[0]
			w.kept = w.kept[1:]
			if c.Status != rdma.StatusOK {
				return rep, false
			}
			if c.Op != rdma.OpRecvImm {
				continue
			}
			_, _ = w.conn.Endpoints[0].PostRecv(make([]rdma.Recv, 1)) // where it has ended, the next wait tells
			must(w.t, rep.Decode(w.arena.Bytes()[c.Imm*psmsg.ReplySlotBytes:][:psmsg.ReplyBytes]))
			return rep, true
		}
		select {
		case <-w.conn.Done():
			return rep, false
		default:
		}
		w.mux.Wait(time.Now().Add(5 * time.Millisecond))
	}
	if w.why != nil {
		w.t.Log(w.why())
	}
	w.t.Fatalf("neither a reply nor an end within %v", patience)
	return rep, false
}

// pull is a right pull of n keys at a clock; push a right push, by keys.
func (w *raw) pull(slot uint32, clock uint64, n int) psmsg.Request {
	return psmsg.Request{Kind: psmsg.KindPull, Flags: psmsg.FlagCreate, Slot: slot, Clock: clock, Table: testTable, Rows: uint32(n),
		Keys: w.at(rawKeys, n*8), Values: w.at(rawValues, n*testDim*4)}
}

func (w *raw) push(slot uint32, seq, clock uint64, n int) psmsg.Request {
	r := w.pull(slot, clock, n)
	r.Kind, r.Flags, r.Seq = psmsg.KindPush, psmsg.FlagTick, seq
	return r
}

// keys fills the key area with first, first+1, ... and the value area with v.
func (w *raw) fill(first uint64, n int, v float32) {
	b := w.arena.Bytes()
	for i, keys := 0, mem.Uint64s(b[rawKeys:rawKeys+n*8]); i < n; i++ {
		keys[i] = first + uint64(i)
	}
	for i, values := 0, mem.Float32s(b[rawValues:rawValues+n*testDim*4]); i < len(values); i++ {
		values[i] = v
	}
}

func (w *raw) values(n int) []float32 {
	return mem.Float32s(w.arena.Bytes()[rawValues : rawValues+n*testDim*4])
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// each runs f where memory is mapped and where it is not.
func each(t *testing.T, f func(t *testing.T, transport string)) {
	for _, tr := range []string{"shm", "tcp"} {
		t.Run(tr, func(t *testing.T) { f(t, tr) })
	}
}
