package server

import (
	"errors"
	"fmt"
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/psmsg"
	"psrt/tiers"
	"psrt/tiers/dense"
)

// request is one slot's request. There is one per slot and session for the
// session's whole life, so serving allocates nothing.
type request struct {
	psmsg.Request
	s     *session
	slot  int
	busy  bool      // from arrival to reply
	flow  *flow     // what it is counted in; nil when answered
	began time.Time // when it arrived
	stood time.Time // since when its worker waits for others to get an answer
	fetch fetch     // what has not landed yet
	keys  []uint64  // where they lie: slot, staging or the worker's memory
	grads []float32 // likewise; for dense pushes the worker's whole vector
	times []uint8   // of how many steps each row's gradient is the sum; nil: of one
	rows  []uint32  // of a push that was taken: pinned until it is applied
	birth birth     // of those that it makes

	// Of an op of a group's chain: it belongs to no session.
	chained bool
	spilled bool   // it was acknowledged before its step was over; it belongs to no session, either
	op      uint64 // its place in the order, 0: in a copy's beginning
	body    []byte

	look    tiers.Lookup // from find to takeFound
	finding finding
	stage   stage
	named   []uint64 // keys that its ticket stood for
	pack    pack
}

// ticket remembers the rows of a pull.
type ticket struct {
	id    uint64 // 0 = free
	age   uint64 // rises with each ticket of the lane
	table uint32
	rows  []uint32 // pinned
	keys  []uint64 // where they may be asked for, see retained
}

// session is one worker's connection to one lane. Only the lane touches it.
type session struct {
	id         uint32 // its number in lane.sessions
	worker     int
	client     uint64 // which client speaks for the worker
	generation int    // of its process, 0 if it does not say
	ep         rdma.Endpoint
	lane       *lane
	domain     rdma.Domain
	link       *link // nil: nobody grants
	source     int   // in link
	seen       *seen // by the watch
	version    int   // of the wire that was agreed on
	newest     int   // that the client speaks
	mapped     bool
	maxMessage int
	open       bool             // rings exchanged, requests may come
	reads      bool             // it may only pull, and from any member of a chain
	ahead      bool             // it waits for this server to lead the group, and is not open yet
	hangUp     func(broke bool) // ends the whole connection; broke: an endpoint did by itself
	broken     bool

	ring    *mem.Arena // landing slots, then reply staging
	slotLen int        // bytes of a landing slot
	region  rdma.Region
	replies rdma.RemoteRange

	reqs  [psmsg.Slots]request
	order []*request // pushes not yet taken, by rising sequence; at most psmsg.Slots
	plain int        // pushes that are not to flow through a chain, see chainflow.go

	tickets    [Tickets]ticket
	named      []keyTicket // of a group
	nextTicket uint64

	values  [psmsg.Slots]int // bytes of them that were posted, and whose answer was not
	under   []int            // of answers that were, and have not arrived, in order
	answers sender           // values and replies, on ep
	beside  bool             // answers to pushes go by fetches, in front of values
	fetches *sender          // on an endpoint of their own where values cross a link, else answers

	// held are the dense values of pulls whose writes are under way, in the
	// order of the pulls; at most maxHolds.
	held []*dense.Plane
}

// What one session posts, and how many sessions of one worker may take room in
// a lane's queues at a time: the one in use, those being set up, and one that
// ended and is not polled empty yet.
const (
	sendDepth    = 4 * psmsg.Slots
	fetchDepth   = sendDepth + psmsg.Slots // of the endpoint for fetches, where there is one
	recvDepth    = psmsg.Slots
	maxJoining   = 2
	sessionsEach = 1 + maxJoining + 1
)

// maxHolds bounds the versions of the dense values that one session keeps. A
// worker can have more pulls under way only if it does not acknowledge what was
// written to it; further ones wait.
const maxHolds = psmsg.Slots

// newSession allocates what a worker's connection to one lane needs.
func newSession(worker int, client uint64, d rdma.Domain, slotBytes, node int) (*session, error) {
	caps := d.Caps()
	s := &session{worker: worker, client: client, domain: d, slotLen: slotBytes, mapped: caps.Mapped, maxMessage: caps.MaxMessage}
	var err error
	s.ring, err = mem.New(mem.Config{Size: psmsg.Slots * (slotBytes + psmsg.ReplySlotBytes), Node: node, Purpose: "server landing ring", Share: true, Lock: true})
	if err != nil {
		return nil, err
	}
	s.region, err = d.Register(s.ring, rdma.AccessRemoteWrite, "server landing ring")
	if err != nil {
		s.ring.Close()
		return nil, err
	}
	for i := range s.reqs {
		s.reqs[i].s, s.reqs[i].slot = s, i
	}
	s.order, s.seen = make([]*request, 0, psmsg.Slots), &seen{worker: worker}
	return s, nil
}

// landing is the range that the client writes requests into.
func (s *session) landing() rdma.RemoteRange {
	return s.region.Remote().Slice(0, uint64(psmsg.Slots*s.slotLen))
}

func (s *session) slotBytes(slot int) []byte {
	return s.ring.Bytes()[slot*s.slotLen : (slot+1)*s.slotLen]
}

func (s *session) replyBytes(slot int) []byte {
	off := psmsg.Slots*s.slotLen + slot*psmsg.ReplySlotBytes
	return s.ring.Bytes()[off : off+psmsg.ReplyBytes]
}

// close frees everything. The endpoint goes first: until then the transport
// may still write into the ring and the staging areas.
func (s *session) close() {
	if s.ep != nil {
		s.ep.Close()
	}
	if s.twin() {
		s.fetches.ep.Close()
	}
	for i := range s.reqs {
		s.reqs[i].stage.close()
	}
	if s.region != nil {
		s.region.Close()
	}
	s.ring.Close()
}

// connected gives a session its endpoints; fetches is nil where there is one for all.
func (s *session) connected(ep, fetches rdma.Endpoint) {
	s.ep, s.answers.ep, s.fetches = ep, ep, &s.answers
	if fetches != nil {
		s.fetches = &sender{ep: fetches}
	}
}

// twin says whether fetches have an endpoint of their own.
func (s *session) twin() bool { return s.fetches != nil && s.fetches != &s.answers }

// post sends wrs in order.
func (s *session) post(by *sender, wr rdma.WR) {
	if !s.broken {
		s.broken = !by.post(wr)
	}
}

// lend gives the worker's own memory, where it can be mapped. A worker that
// does not answer is lost, not wrong: it may have been stopped, and will send
// its requests again over a new connection. The lane must not ask it twice.
func (s *session) lend(r rdma.RemoteRange) ([]byte, psmsg.Code) { return s.reached(s.ep.Map(r)) }

// enter is lend for what is stored, until s.ep.Leave. A worker that has gone to another
// member of a chain has closed this connection before: what is stored here must not come
// after that one's answer.
func (s *session) enter(r rdma.RemoteRange) ([]byte, psmsg.Code) { return s.reached(s.ep.Enter(r)) }

func (s *session) reached(b []byte, err error) ([]byte, psmsg.Code) {
	if err == nil {
		return b, psmsg.CodeOK
	}
	var e *rdma.Error
	if !errors.Is(err, rdma.ErrInvalid) && !(errors.As(err, &e) && e.Status == rdma.StatusRemoteAccess) {
		s.broken = true
	}
	return nil, psmsg.CodeBadRequest
}

// flush retries what the endpoints have not taken.
func (s *session) flush() {
	if s.broken {
		return
	}
	s.broken = !s.answers.flush() || s.twin() && !s.fetches.flush()
}

// write posts writes of local to remote in pieces that the transport takes.
// With told the last of them is signaled: local has then been read.
func (s *session) write(local []byte, remote rdma.RemoteRange, slot int, told bool) {
	s.inPieces(&s.answers, rdma.WR{ID: wrID(s.id, slot), Op: rdma.OpWrite}, local, remote, told)
	s.valued(slot, len(local))
}

// read posts reads of remote into local. Each piece is signaled: its bytes are
// counted when they land. Nothing relies on their order with what answers post.
func (s *session) read(local []byte, remote rdma.RemoteRange, slot int) {
	s.inPieces(s.fetches, rdma.WR{ID: wrID(s.id, slot), Op: rdma.OpRead, Signaled: true}, local, remote, true)
}

// inPieces posts wr piece by piece; told signals the last one at least.
func (s *session) inPieces(by *sender, wr rdma.WR, local []byte, remote rdma.RemoteRange, told bool) {
	for len(local) > 0 {
		n := min(len(local), s.maxMessage)
		wr.Local, wr.Remote = local[:n], remote.Slice(0, uint64(n))
		wr.Signaled = wr.Signaled || told && n == len(local)
		s.post(by, wr)
		local, remote = local[n:], remote.Slice(uint64(n), remote.Len-uint64(n))
	}
}

// takeTicket finds and forgets a ticket; its rows now belong to the caller.
func (s *session) takeTicket(id uint64, tableID uint32) (rows []uint32, keys []uint64, ok bool) {
	t := &s.tickets[id%Tickets]
	if id == 0 || t.id != id || t.table != tableID {
		return nil, nil, false
	}
	rows, keys = t.rows, t.keys
	*t = ticket{}
	return rows, keys, true
}

// putTicket remembers a pull's rows, in the place of those of an older one. The
// session's number is in the ticket's upper half, so that one of an earlier
// connection is never taken for valid.
func (l *lane) putTicket(s *session, tableID uint32, rows []uint32, keys []uint64) (id uint64) {
	s.nextTicket++
	l.tickets++
	id = uint64(s.id+1)<<32 | s.nextTicket&0xffffffff
	t := &s.tickets[id%Tickets]
	if t.id != 0 {
		l.giveBack(l.tables[t.table], t.rows)
	}
	*t = ticket{id: id, age: l.tickets, table: tableID, rows: rows, keys: keys}
	return id
}

// wrID carries session and slot through a completion.
func wrID(session uint32, slot int) uint64 { return uint64(session)<<32 | uint64(slot) }

func slotOf(c *rdma.Completion) int { return int(uint32(c.ID)) % psmsg.Slots }

// stage is a registered buffer that grows; used where the worker's memory is
// not mapped.
type stage struct {
	arena  *mem.Arena
	region rdma.Region
}

// bytes returns n bytes of registered memory, valid until the next call.
func (st *stage) bytes(d rdma.Domain, node, n int) ([]byte, error) {
	if n > MaxStageBytes {
		return nil, fmt.Errorf("server: a request of %d bytes, at most %d: use smaller batches", n, MaxStageBytes)
	}
	if st.arena != nil && len(st.arena.Bytes()) >= n {
		return st.arena.Bytes()[:n], nil
	}
	st.close()
	size := 1 << 16
	for size < n {
		size *= 2
	}
	a, err := mem.New(mem.Config{Size: size, Node: node, Purpose: "server staging", Share: true})
	if err != nil {
		return nil, err
	}
	r, err := d.Register(a, rdma.AccessLocal, "server staging")
	if err != nil {
		a.Close()
		return nil, err
	}
	st.arena, st.region = a, r
	return a.Bytes()[:n], nil
}

func (st *stage) close() {
	if st.region != nil {
		st.region.Close()
	}
	if st.arena != nil {
		st.arena.Close()
	}
	*st = stage{}
}
