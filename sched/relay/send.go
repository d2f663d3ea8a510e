package relay

import (
	"fmt"

	"psrt/rdma"
	"psrt/sched/chain"
)

// outgoing is what goes to the peer. Places are counted on and on; one's place in the
// ring is its remainder.
type outgoing struct {
	ring  int // bytes of it that are used
	depth int
	peer  rdma.RemoteRange

	queue   queue
	current payload // of the queue's first message, once begun
	begun   bool
	off     int // bytes of current that are in records

	head   uint64   // place behind the newest record
	tail   uint64   // place of the oldest that may not be written over
	ends   []uint64 // places behind records, by their number
	sent   uint64   // records made
	done   uint64   // records that the peer has named
	read   uint64   // records whose requests have completed: the transport has read them
	freed  uint64   // the lesser of both
	silent int      // requests since the last signaled one
	quiet  int      // bytes likewise

	wrs []rdma.WR // made and not posted

	keys   []key                // of the messages that end in records, by the records' numbers
	newest [chain.Moved + 1]key // by kind: taken last of those sent for the first time
}

func (o *outgoing) begin(ring, depth int, peer rdma.RemoteRange) {
	o.ring, o.depth, o.peer = ring&^(4*place-1), depth, peer
	o.ends, o.keys = make([]uint64, depth), make([]key, depth)
	o.wrs = make([]rdma.WR, 0, 2*depth)
}

func (o *outgoing) drop() {
	o.queue.clear()
	o.current, o.begun, o.wrs = payload{}, false, nil
}

// Send takes a message for the peer. What it refers to may not be changed before it
// is in records, at the latest when Pending is 0; an op's body may be once it is
// committed, because then the peer has it and looks at it no more. What is sent again
// while it is on its way is not taken twice (again.go). false: there was no room, the
// link is broken, or the message is for another; it is dropped.
func (l *Link) Send(m *chain.Message) bool {
	size := sizeOf(m)
	if l.err == nil && max(size, m.Header.Size) > l.opt.MaxMessageBytes {
		l.fail(fmt.Errorf("%w: a %s of %d bytes of an op of %d, at most %d are carried: use smaller batches or more groups",
			ErrTooLarge, m.Kind, size, m.Header.Size, l.opt.MaxMessageBytes))
	}
	q := &l.out.queue
	if l.err != nil || l.closed || m.Group != l.cfg.Group || m.To != l.cfg.Peer {
		l.stats.Dropped++
		return false
	}
	switch n, all := l.out.onItsWay(m); {
	case all:
		l.stats.Spared++
		return true
	case n > 0:
		rest := *m
		rest.Off, rest.Bytes = m.Off+n, m.Bytes[n:]
		m, size = &rest, sizeOf(&rest)
	}
	if q.count >= l.opt.QueueMessages || q.count > 0 && q.bytes+size > l.opt.QueueBytes {
		l.stats.Dropped++
		return false
	}
	q.push(m, size)
	l.pump()
	return true
}

// Pending is how many messages wait for room.
func (l *Link) Pending() int { return l.out.queue.count }

// pump makes records of what waits, as far as there is room.
func (l *Link) pump() {
	o := &l.out
	if l.ready && l.in.owed && o.queue.count > 0 {
		l.repost() // so that the records tell
	}
	for l.ready && l.err == nil && o.queue.count > 0 {
		if !o.begun {
			o.current.encode(o.queue.first())
			o.begun, o.off = true, 0
		}
		for o.off < o.current.total {
			n := min(o.current.total-o.off, l.cut-recordBytes)
			if !l.record(n) {
				l.stats.Waits++
				return
			}
			o.off += n
		}
		o.begun, o.current.parts = false, [3][]byte{}
		o.queue.pop()
		l.stats.SentMessages++
		l.stats.SentBytes += uint64(o.current.total)
	}
}

// record puts the next n bytes of the message into a record, if there is room.
func (l *Link) record(n int) bool {
	o := &l.out
	if o.sent-o.freed >= uint64(o.depth) || len(o.wrs) == cap(o.wrs) {
		return false
	}
	size := uint64(recordBytes+n+place-1) &^ (place - 1)
	if o.sent == o.freed {
		o.tail = o.head
	}
	ring := uint64(o.ring)
	at, start := o.head%ring, o.head
	if at+size > ring {
		start += ring - at
		at = 0
	}
	if start+size-o.tail > ring {
		return false
	}
	o.sent++
	o.head = start + size
	o.ends[o.sent%uint64(o.depth)] = o.head
	h := record{version: l.version, bytes: n, number: o.sent, done: l.tell(), total: uint64(o.current.total)}
	if o.off == 0 {
		h.flags |= flagFirst
	}
	o.keys[o.sent%uint64(o.depth)] = key{}
	if o.off+n == o.current.total {
		h.flags |= flagLast
		if m := o.queue.first(); bulk(m.Kind) {
			o.keys[o.sent%uint64(o.depth)] = keyOf(m)
		}
	}
	b := l.send[at : at+uint64(recordBytes+n)]
	o.current.copyAt(b[recordBytes:], o.off)
	h.encode(b)
	wr := rdma.WR{Op: rdma.OpWriteImm, Imm: uint32(at / place), Remote: o.peer.Slice(at, 0)}
	if !l.mapped {
		wr.Local, wr.Remote = b, o.peer.Slice(at, uint64(len(b)))
	}
	l.add(wr, int(size))
	l.stats.SentRecords++
	l.stats.CopiedOutBytes += uint64(n)
	return true
}

// add puts a request behind the others. A quarter of what may be on the way is not
// told of when it completes, at most.
func (l *Link) add(wr rdma.WR, size int) {
	o := &l.out
	o.silent++
	o.quiet += size
	if 4*o.silent >= o.depth || 4*o.quiet >= o.ring {
		wr.Signaled = true
		o.silent, o.quiet = 0, 0
	}
	wr.ID = l.id(uint32(o.sent))
	o.wrs = append(o.wrs, wr)
}

// Flush posts what was made since the last time, and tells the peer what may be
// written over. Call it when a batch of completions has been handled or messages
// have been sent.
func (l *Link) Flush() error {
	if l.err != nil || !l.ready {
		return l.err
	}
	l.repost()
	l.pump()
	if o := &l.out; l.in.due() && len(o.wrs) < cap(o.wrs) {
		l.add(rdma.WR{Op: rdma.OpWriteImm, Imm: creditBit | uint32(l.tell())&^creditBit, Remote: o.peer.Slice(0, 0)}, 0)
		l.stats.Credits++
	}
	l.post()
	return l.err
}

func (l *Link) post() {
	o := &l.out
	if l.err != nil || len(o.wrs) == 0 {
		return
	}
	n, err := l.ep.Post(o.wrs)
	if err != nil {
		l.fail(err)
		return
	}
	o.wrs = o.wrs[:copy(o.wrs, o.wrs[n:])]
}

// free notes what may be written over.
func (o *outgoing) free() {
	if n := min(o.done, o.read); n > o.freed {
		o.freed = n
		o.tail = o.ends[n%uint64(o.depth)]
	}
}

// completed is told by a signaled request: the transport has read the records up to
// the one whose number's lower half is low.
func (o *outgoing) completed(low uint32) error {
	n := o.read + uint64(low-uint32(o.read))
	if n > o.sent {
		return fmt.Errorf("a request completed that was not posted: record %d of %d", n, o.sent)
	}
	o.read = n
	o.free()
	return nil
}

// named is told by the peer: records up to n, modulo 1<<31, are done.
func (o *outgoing) named(n uint64) error {
	n = o.done + (n-o.done)&(creditBit-1)
	if n > o.sent {
		return fmt.Errorf("%w: it is done with record %d, %d were sent", ErrProtocol, n, o.sent)
	}
	o.done = n
	o.free()
	return nil
}
