package server

import "psrt/sched/psmsg"

// A ticket of a group stands for the keys of a pull, which the head has kept: numbers of
// rows are each replica's own, keys are not. It is good at the head that gave it, in the
// epoch and over the connection in which it did, once, and until the session has been
// given Tickets more.

// maxTicketKeys bounds the pull that a ticket stands for.
const maxTicketKeys = 64 << 10

// keyTicket is one that a session was given.
type keyTicket struct {
	id    uint64 // 0: free
	table uint32
	keys  []uint64
}

// ticketID is a ticket of the lane: epoch, session, and a number that rises.
func (c *chained) ticketID(s *session, n uint64) uint64 {
	return c.m.Epoch()<<40 | uint64(s.id+1)&0xfffff<<20 | n&0xfffff
}

// remember gives a pull's ticket, 0 where it is not of a kind that is pushed to.
func (c *chained) remember(r *request) uint64 {
	s := r.s
	if s.reads || r.Flags&(psmsg.FlagCreate|psmsg.FlagNoClock) != psmsg.FlagCreate || len(r.keys) == 0 || len(r.keys) > maxTicketKeys {
		return 0
	}
	if s.named == nil {
		s.named = make([]keyTicket, Tickets)
	}
	s.nextTicket++
	t := &s.named[s.nextTicket%Tickets]
	t.id, t.table, t.keys = c.ticketID(s, s.nextTicket), r.Table, append(t.keys[:0], r.keys...)
	return t.id
}

// redeem gives a push the keys of its ticket.
func (c *chained) redeem(r *request) bool {
	s := r.s
	if s.named == nil {
		return false
	}
	t := &s.named[r.Ticket&0xfffff%Tickets]
	if r.Ticket == 0 || t.id != r.Ticket || t.id != c.ticketID(s, r.Ticket) || t.table != r.Table || len(t.keys) != int(r.Rows) {
		return false
	}
	r.named, t.keys, t.id = t.keys, r.named[:0], 0
	r.keys, r.Flags = r.named, r.Flags&^psmsg.FlagTicket
	return true
}
