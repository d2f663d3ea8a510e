package codec

import (
	"fmt"
	"math/rand/v2"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/psmsg"
)

// What rides behind a request's header.
const (
	nothing = iota
	keys
	gradients
)

// A push small enough for a slot.
const (
	ticketRows = 256
	ticketDim  = 16
)

// requests are encoded and read as client and lane do it: the payload is
// copied behind the header, and used where it lies.
type requests struct {
	list    []psmsg.Request
	payload [][]uint64
}

func newRequests(r *rand.Rand, name string, what, rows int) kind {
	f := &requests{}
	payload := map[int]int{nothing: 0, keys: rows, gradients: rows * ticketDim / 2}[what] // words
	for i := range psmsg.Slots {
		req := psmsg.Request{Kind: psmsg.KindPull, Flags: psmsg.FlagCreate, Slot: uint32(i), Seq: r.Uint64(), Clock: r.Uint64(), Table: r.Uint32(),
			Rows: uint32(rows), Ticket: r.Uint64(), Keys: remote(r, uint64(rows)*8), Values: remote(r, r.Uint64())}
		switch what {
		case keys:
			req.Flags |= psmsg.FlagInlineKeys
		case gradients:
			req.Kind, req.Flags = psmsg.KindPush, psmsg.FlagTicket|psmsg.FlagInlineGrads
		}
		words := make([]uint64, payload)
		for i := range words {
			words[i] = r.Uint64()
		}
		f.list, f.payload = append(f.list, req), append(f.payload, words)
	}
	k := kind{name: name, slots: psmsg.Slots, stride: psmsg.SlotBytes, size: psmsg.RequestBytes + payload*8, keys: rows, decodes: "decode", f: f}
	if payload > 0 {
		k.decodes = "decode, read in place"
	}
	return k
}

func remote(r *rand.Rand, n uint64) rdma.RemoteRange {
	return rdma.RemoteRange{Key: r.Uint64(), Addr: r.Uint64(), Len: n}
}

func (f *requests) encode(r *ring, n int) error {
	for i, at := 0, 0; i < n; i++ {
		b := r.slot(at)
		copy(b[psmsg.RequestBytes:], mem.Bytes(f.payload[at]))
		f.list[at].Encode(b)
		if at++; at == r.slots {
			at = 0
		}
	}
	return nil
}

func (f *requests) decode(r *ring, n int) (sum uint64, err error) {
	var q psmsg.Request
	for i, at := 0, 0; i < n; i++ {
		b := r.slot(at)
		if err := q.Decode(b); err != nil {
			return 0, err
		}
		sum += total(&q) + words(mem.Uint64s(b[psmsg.RequestBytes:]))
		if at++; at == r.slots {
			at = 0
		}
	}
	return sum, nil
}

func total(q *psmsg.Request) uint64 {
	return uint64(q.Kind) + uint64(q.Flags) + uint64(q.Slot) + q.Seq + q.Clock + uint64(q.Table) + uint64(q.Rows) + q.Ticket +
		q.Keys.Key + q.Keys.Addr + q.Keys.Len + q.Values.Key + q.Values.Addr + q.Values.Len
}

func (f *requests) want(slot int) uint64 { return total(&f.list[slot]) + words(f.payload[slot]) }

func (f *requests) equal(r *ring, slot int) bool {
	var q psmsg.Request
	b := r.slot(slot)
	return q.Decode(b) == nil && fmt.Sprint(q) == fmt.Sprint(f.list[slot]) && string(b[psmsg.RequestBytes:]) == string(mem.Bytes(f.payload[slot]))
}

// replies are as many as requests, a cache line apart.
type replies []psmsg.Reply

func newReplies(r *rand.Rand) kind {
	var f replies
	for i := range psmsg.Slots {
		f = append(f, psmsg.Reply{Code: psmsg.CodeDuplicate, Slot: uint32(i), Seq: r.Uint64(), Ticket: r.Uint64(), Version: r.Uint64(), Rows: r.Uint32()})
	}
	return kind{name: "reply", slots: psmsg.Slots, stride: psmsg.ReplySlotBytes, size: psmsg.ReplyBytes, decodes: "decode", f: f}
}

func (f replies) encode(r *ring, n int) error {
	for i, at := 0, 0; i < n; i++ {
		f[at].Encode(r.slot(at))
		if at++; at == r.slots {
			at = 0
		}
	}
	return nil
}

func (f replies) decode(r *ring, n int) (sum uint64, err error) {
	var p psmsg.Reply
	for i, at := 0, 0; i < n; i++ {
		if err := p.Decode(r.slot(at)); err != nil {
			return 0, err
		}
		sum += sumOf(&p)
		if at++; at == r.slots {
			at = 0
		}
	}
	return sum, nil
}

func sumOf(p *psmsg.Reply) uint64 {
	return uint64(p.Code) + uint64(p.Slot) + p.Seq + p.Ticket + p.Version + uint64(p.Rows)
}

func (f replies) want(slot int) uint64 { return sumOf(&f[slot]) }

func (f replies) equal(r *ring, slot int) bool {
	var p psmsg.Reply
	return p.Decode(r.slot(slot)) == nil && p == f[slot]
}
