package relay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/rdma/sim"
	"psrt/sched/chain"
)

// TestHostile writes what no link writes into a link's ring. It breaks, says so, and
// gives nothing of it on.
func TestHostile(t *testing.T) {
	good := flat(&chain.Message{Kind: chain.Tell, Seq: 1})
	whole := record{version: Newest, flags: flagFirst | flagLast, bytes: len(good), number: 1, total: uint64(len(good))}
	with := func(change func(r *record)) []byte {
		r := whole
		change(&r)
		b := make([]byte, recordBytes)
		r.encode(b)
		return append(b, good...)
	}
	raw := func(change func(b []byte)) []byte {
		b := with(func(*record) {})
		change(b)
		return b
	}
	for name, c := range map[string]struct {
		imm   uint32
		bytes []byte
		write int // bytes of it, 0: all
	}{
		"torn":                    {0, raw(func(b []byte) { b[9]++ }), 0},
		"of another version":      {0, raw(func(b []byte) { b[0]++; putCheck(b) }), 0},
		"with unknown flags":      {0, raw(func(b []byte) { b[1] = flagsEnd; putCheck(b) }), 0},
		"with what must be zero":  {0, raw(func(b []byte) { b[3] = 1; putCheck(b) }), 0},
		"repeated":                {0, with(func(r *record) { r.number = 0 }), 0},
		"after a lost one":        {0, with(func(r *record) { r.number = 2 }), 0},
		"done with the unsent":    {0, with(func(r *record) { r.done = 1 }), 0},
		"beyond the ring":         {maxRing / place, with(func(*record) {}), 0},
		"longer than the ring":    {0, with(func(r *record) { r.bytes = 1 << 31 }), 0},
		"longer than written":     {0, with(func(r *record) { r.bytes++ }), 0},
		"shorter than written":    {0, with(func(r *record) { r.bytes-- }), 0},
		"without a first part":    {0, with(func(r *record) { r.flags = flagLast }), 0},
		"not last and whole":      {0, with(func(r *record) { r.flags = flagFirst }), 0},
		"last and not whole":      {0, with(func(r *record) { r.total++ }), 0},
		"of nothing":              {0, with(func(r *record) { r.bytes, r.total = 0, 0 }), recordBytes},
		"of too long a message":   {0, with(func(r *record) { r.flags, r.total = flagFirst, 1<<20+1 }), 0},
		"of an absurd message":    {0, with(func(r *record) { r.flags, r.total = flagFirst, 1<<63 }), 0},
		"of a wrong message":      {0, raw(func(b []byte) { b[recordBytes] = 0 }), 0},
		"credits for the unsent":  {creditBit | 1, nil, 0},
		"credits without measure": {creditBit | (creditBit - 1), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := simulated(t, sim.Config{})
			da, db := d(), d()
			b := newEnd(t, db, Config{Self: nodeB, Peer: nodeA, Options: Options{MaxMessageBytes: 1 << 20},
				On: func(m *chain.Message) { t.Errorf("it was given on: %+v", m) }})
			mine := newStranger(t, da, b)
			copy(mine.mem, c.bytes)
			n := len(c.bytes)
			if c.write != 0 {
				n = c.write
			}
			// The place is only what the immediate says: the bytes go to the ring's beginning.
			mine.post(rdma.WR{Op: rdma.OpWriteImm, Imm: c.imm, Local: mine.mem[:n], Remote: b.link.Offer().Ring.Slice(0, uint64(n))})
			err := breaking(t, b, func() {})
			if !errors.Is(err, ErrProtocol) {
				t.Errorf("%v", err)
			}
			mustName(t, b, err)
		})
	}
}

// TestParts: parts of messages that do not fit each other.
func TestParts(t *testing.T) {
	good := flat(&chain.Message{Kind: chain.Data, Header: chain.Header{Kind: chain.Push, Size: 500}, Bytes: bytes.Repeat([]byte{7}, 500)})
	for name, parts := range map[string][]record{
		"two beginnings":    {{flags: flagFirst, bytes: 100, total: 580}, {flags: flagFirst, bytes: 100, total: 580}},
		"another length":    {{flags: flagFirst, bytes: 100, total: 580}, {bytes: 100, total: 581}},
		"too much":          {{flags: flagFirst, bytes: 100, total: 580}, {bytes: 481, total: 580}},
		"an early end":      {{flags: flagFirst, bytes: 100, total: 580}, {flags: flagLast, bytes: 400, total: 580}},
		"no end":            {{flags: flagFirst, bytes: 100, total: 580}, {bytes: 480, total: 580}},
		"an end of nothing": {{flags: flagFirst, bytes: 100, total: 580}, {bytes: 0, total: 580}},
	} {
		t.Run(name, func(t *testing.T) {
			in := incoming{decoder: decoder{max: 1 << 20}}
			for i, r := range parts {
				m, err := in.part(&r, good[:r.bytes])
				if m != nil || (err != nil) != (i == 1) || i == 1 && !errors.Is(err, ErrProtocol) {
					t.Fatalf("part %d: %v, %+v", i, err, m)
				}
			}
		})
	}
}

// stranger is an endpoint that is connected to a link's and is none itself.
type stranger struct {
	t   *testing.T
	ep  rdma.Endpoint
	q   rdma.Queue
	mem []byte
}

func newStranger(t *testing.T, d rdma.Domain, e *end) *stranger {
	t.Helper()
	s := &stranger{t: t}
	a, err := mem.New(mem.Config{Size: 1 << 16, Node: -1, Purpose: "test", Share: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Register(a, rdma.AccessRemoteWrite, "test")
	if err != nil {
		t.Fatal(err)
	}
	s.mem = a.Bytes()
	if s.q, err = d.NewQueue(1000); err != nil {
		t.Fatal(err)
	}
	if s.ep, err = d.NewEndpoint(rdma.EndpointConfig{Queue: s.q, SendDepth: 200, RecvDepth: 200, Peer: "link"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(); a.Close() })
	connect(t, s.ep, e.ep)
	if err := e.link.Attach(e.ep); err != nil {
		t.Fatal(err)
	}
	if err := e.link.Ready(Offer{Version: Oldest, Ring: r.Remote(), SendBytes: 1 << 16, Depth: 128, MaxMessageBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stranger) post(wr rdma.WR) {
	s.t.Helper()
	if n, err := s.ep.Post([]rdma.WR{wr}); n != 1 || err != nil {
		s.t.Fatalf("Post: %d, %v", n, err)
	}
}

// TestHonestStranger: the record that TestHostile alters is taken as it is.
func TestHonestStranger(t *testing.T) {
	d := simulated(t, sim.Config{})
	da, db := d(), d()
	var got uint64
	b := newEnd(t, db, Config{Self: nodeB, Peer: nodeA, On: func(m *chain.Message) { got = m.Seq }})
	mine := newStranger(t, da, b)
	good := flat(&chain.Message{Kind: chain.Tell, Seq: 77})
	(&record{version: Newest, flags: flagFirst | flagLast, bytes: len(good), number: 1, total: uint64(len(good))}).encode(mine.mem)
	n := recordBytes + copy(mine.mem[recordBytes:], good)
	mine.post(rdma.WR{Op: rdma.OpWriteImm, Local: mine.mem[:n], Remote: b.link.Offer().Ring.Slice(0, uint64(n))})
	for deadline := time.Now().Add(patience); got == 0 && time.Now().Before(deadline); {
		if b.mustStep() == 0 {
			b.q.Wait(time.Now().Add(time.Millisecond))
		}
	}
	if got != 77 {
		t.Errorf("got %d", got)
	}
}

func putCheck(b []byte) { binary.LittleEndian.PutUint64(b[32:], fold(b[:32])) }
