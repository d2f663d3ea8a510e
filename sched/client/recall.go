package client

import (
	"errors"
	"fmt"
	"slices"

	"psrt/sched/psmsg"
)

// A server that was stopped while it wrote into this process's memory, and was given up
// since, ends that write whenever it goes on. So what is asked of its successor
// must not come to the same memory. Working sets keep their addresses, which their owners know:
// the memory behind these is another from then on (mem.Arena.Renew), and the old one is the
// stopped server's alone, until it unmaps it or dies. That bounds it, too: a process is
// inside one access of a connection, and what it holds goes with it.

// ErrNotOurs ends a client of which such a server has memory that cannot be exchanged.
var ErrNotOurs = errors.New("client: a server that is stopped in the middle of writing into memory of this worker may go on at any time, " +
	"and others use that memory, too: end the stopped process (kill -9), and have the worker begin again at its last checkpoint")

// errRecalled breaks the connections over which the same memory is used.
var errRecalled = errors.New("client: the memory of its requests was exchanged: another server is stopped inside it")

// recall takes from the server that a lane was connected to what it may still write into.
// The lane's connection is closed, its requests are not sent again yet. With the turn.
func (c *Client) recall(l *laneConn) error {
	if err := l.recallRing(c); err != nil {
		return err
	}
	lent := slices.Clone(l.let)
	for slot := range l.parts {
		if at := l.parts[slot].written; at != nil && !slices.Contains(lent, at) {
			lent = append(lent, at)
		}
	}
	for _, s := range lent {
		if err := c.renew(s, l); err != nil {
			return err
		}
	}
	return nil
}

// recallRing gives a lane rings of its own: those that it had are not used again.
func (l *laneConn) recallRing(c *Client) error {
	if l.buf == nil {
		return nil
	}
	own, err := c.share(psmsg.Slots*(l.slotBytes+psmsg.ReplySlotBytes), "worker request ring")
	if err != nil {
		return err
	}
	l.closeRing(c)
	l.buf, l.at = own, 0
	return nil
}

// closeRing frees the lane's rings, where they are not a part of everybody's.
func (l *laneConn) closeRing(c *Client) {
	if l.buf != nil && l.buf != c.rings {
		l.buf.close()
	}
}

// renew exchanges s behind its addresses. Who else is asked for something that lies there
// is asked again, over another connection.
func (c *Client) renew(s *shared, by *laneConn) error {
	if s.closed { // unmapped here: the old memory is the server's alone
		return nil
	}
	if s.arena == nil || s.beside {
		return fmt.Errorf("%w: %s", ErrNotOurs, s.purpose)
	}
	// Those that are broken already, too: an answer of theirs may be in a queue still, and its
	// values in the old memory.
	for _, l := range c.lanes {
		if l != by && l.uses(s) {
			l.broken = errRecalled
		}
	}
	for _, r := range c.readers {
		if l := r.lane; l != by && l.uses(s) {
			l.broken = errRecalled
			c.breakReader(l)
		}
	}
	s.withdraw()
	if err := s.arena.Renew(); err != nil {
		return fmt.Errorf("client: %s: %w", s.purpose, err)
	}
	return nil
}

// uses says whether a request of the lane names s.
func (l *laneConn) uses(s *shared) bool {
	return slices.ContainsFunc(l.parts, func(p part) bool {
		return p.active && (p.dense != nil && p.dense.arena == s || p.rows != nil && p.rows.arena == s)
	})
}

// withdraw ends the registrations of s. Nobody is inside it any more then, but peers of
// connections that are closed already.
func (s *shared) withdraw() {
	for _, r := range s.regions {
		_ = r.Close()
	}
	clear(s.regions)
}
