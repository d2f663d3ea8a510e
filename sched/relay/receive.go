package relay

import (
	"fmt"

	"psrt/rdma"
	"psrt/sched/chain"
)

// incoming is what comes from the peer.
type incoming struct {
	ring  int // bytes of it that the peer uses
	depth int

	got      uint64 // records taken
	gotBytes uint64 // of the ring, that they took
	open     uint64 // records taken whose receives are posted again
	openAt   uint64 // gotBytes then
	told     uint64 // records that the peer was told of
	toldAt   uint64 // gotBytes then
	owed     bool   // the peer must be told at once: see again.go
	used     int    // receives to be posted
	recvs    []rdma.Recv

	decoder  decoder
	assembly []byte // of a message in several records
	total    uint64 // of it, 0: none
}

func (in *incoming) begin(ring, depth int) { in.ring, in.depth = ring&^(4*place-1), depth }

// due says whether the peer must be told what is done.
func (in *incoming) due() bool {
	return in.open > in.told && (in.owed || 4*(in.open-in.told) >= uint64(in.depth) || 4*(in.openAt-in.toldAt) >= uint64(in.ring))
}

// tell is what the peer is told now.
func (l *Link) tell() uint64 {
	l.in.told, l.in.toldAt, l.in.owed = l.in.open, l.in.openAt, l.in.owed && l.in.open < l.in.got
	return l.in.told
}

// repost gives receives back: when the peer is to be told what is done, or a quarter of
// all are used.
func (l *Link) repost() {
	in := &l.in
	if l.err != nil || in.used == 0 || !in.owed && 4*in.used < max(in.depth, minDepth) && 4*(in.gotBytes-in.openAt) < uint64(in.ring) {
		return
	}
	n, err := l.ep.PostRecv(in.recvs[:in.used])
	switch {
	case err != nil:
		l.fail(err)
	case n < in.used:
		l.fail(fmt.Errorf("only %d of %d receives could be posted", n, in.used))
	}
	in.used, in.open, in.openAt = 0, in.got, in.gotBytes
}

// Complete takes a completion whose ID has the link's in its upper half, and calls
// Config.On for what has arrived. After an error the link is broken: it is Err.
func (l *Link) Complete(c *rdma.Completion) error {
	switch {
	case l.closed:
		return rdma.ErrClosed
	case l.err != nil:
		return l.err
	case c.Status != rdma.StatusOK:
		return l.fail(c.Err)
	}
	var err error
	switch c.Op {
	case rdma.OpWriteImm:
		err = l.out.completed(uint32(c.ID))
	case rdma.OpRecvImm:
		l.in.used++
		if c.Imm&creditBit != 0 {
			err = l.out.named(uint64(c.Imm &^ creditBit))
		} else {
			err = l.arrive(int(c.Imm)*place, c.Bytes)
		}
	}
	if err != nil {
		return l.fail(err)
	}
	return l.err
}

// arrive takes the record at a place of the ring; bytes is what was written, where
// the peer did not do that itself.
func (l *Link) arrive(at, bytes int) error {
	in := &l.in
	if at > len(l.recv)-recordBytes {
		return fmt.Errorf("%w: a record at byte %d of a ring of %d", ErrProtocol, at, len(l.recv))
	}
	var r record
	if err := r.decode(l.recv[at:], l.opt.Speak); err != nil {
		return err
	}
	switch {
	case r.number != in.got+1:
		return fmt.Errorf("%w: record %d came after record %d", ErrProtocol, r.number, in.got)
	case r.bytes > len(l.recv)-at-recordBytes || !l.mapped && bytes != recordBytes+r.bytes:
		return fmt.Errorf("%w: a record of %d bytes at byte %d of a ring of %d, where %d were written", ErrProtocol, r.bytes, at, len(l.recv), bytes)
	}
	if l.ready { // the first records may come before
		if err := l.out.named(r.done); err != nil {
			return err
		}
	}
	m, err := in.part(&r, l.recv[at+recordBytes:at+recordBytes+r.bytes])
	if err != nil {
		return err
	}
	l.stats.ReceivedRecords++
	if m != nil {
		m.Group, m.From, m.To = l.cfg.Group, l.cfg.Peer, l.cfg.Self
		l.stats.ReceivedMessages++
		l.stats.ReceivedBytes += r.total
		l.stats.CopiedInBytes += in.decoder.copied
		kind := m.Kind
		l.cfg.On(m)
		in.decoder.forget()
		in.owed = in.owed || bulk(kind) // not before: On may Flush
	}
	if r.total != uint64(r.bytes) {
		l.stats.CopiedInBytes += uint64(r.bytes)
	}
	in.got++
	in.gotBytes += uint64(recordBytes+r.bytes+place-1) &^ (place - 1)
	return nil
}

// part takes a record's part of a message; the message when it is whole.
func (in *incoming) part(r *record, b []byte) (*chain.Message, error) {
	first, last := r.flags&flagFirst != 0, r.flags&flagLast != 0
	switch have := uint64(len(in.assembly)); {
	case first != (in.total == 0) || !first && r.total != in.total:
		return nil, fmt.Errorf("%w: a part of a message of %d bytes, %d of %d were here", ErrProtocol, r.total, have, in.total)
	case r.total > in.decoder.max:
		return nil, fmt.Errorf("%w: a message of %d bytes, at most %d are carried", ErrProtocol, r.total, in.decoder.max)
	case len(b) == 0 || uint64(len(b)) > r.total-have || last != (have+uint64(len(b)) == r.total):
		return nil, fmt.Errorf("%w: %d bytes after %d of a message of %d", ErrProtocol, len(b), have, r.total)
	case first && last:
		return in.decoder.decode(b, true)
	case first:
		in.total, in.assembly = r.total, make([]byte, 0, r.total)
	}
	in.assembly = append(in.assembly, b...)
	if !last {
		return nil, nil
	}
	whole := in.assembly
	in.total, in.assembly = 0, nil
	return in.decoder.decode(whole, false)
}
