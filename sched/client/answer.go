package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"psrt/rdma"
	"psrt/sched/psmsg"
)

func (c *Client) complete(comp *rdma.Completion) {
	l := c.laneOf(comp.ID)
	if comp.Endpoint != l.ep && comp.Endpoint != l.twin || l.broken == errRecalled {
		return // of a connection already replaced, or about to be
	}
	c.completeAt(l, comp)
	if l.broken != nil && c.isReader(l) {
		c.breakReader(l)
	}
}

func (c *Client) completeAt(l *laneConn, comp *rdma.Completion) {
	if comp.Status != rdma.StatusOK {
		if l.broken == nil {
			l.broken = comp.Err
		}
		return
	}
	if comp.Op != rdma.OpRecvImm {
		return
	}
	if _, err := comp.Endpoint.PostRecv([]rdma.Recv{{ID: comp.ID}}); err != nil {
		l.broken = err
		return
	}
	slot := int(comp.Imm)
	if slot >= len(l.parts) || !l.parts[slot].active {
		l.broken = fmt.Errorf("client: %s answered slot %d, which asks nothing", c.home(l.server.index), slot)
		return
	}
	var rep psmsg.Reply
	if err := rep.Decode(l.replyBuf(slot)); err != nil {
		l.broken = err
		return
	}
	c.answer(l, slot, &rep)
}

// answer takes a reply and frees its slot, unless the request must go out again.
func (c *Client) answer(l *laneConn, slot int, rep *psmsg.Reply) {
	p := &l.parts[slot]
	call := p.call
	if c.overtaken(l, p, rep) {
		call.Created += int(rep.Rows)
		if c.isReader(l) { // the member may lag for long: the head has what was shown
			c.orphan(l, slot)
			return
		}
		c.stale = append(c.stale, slotRef{l, slot})
		return
	}
	l.deliver(slot)
	if c.nextPiece(l, slot, rep) {
		return
	}
	c.noteAnswer(p, rep)
	p.doubt.note(p, rep.Code)
	switch rep.Code {
	case psmsg.CodeOK, psmsg.CodeDuplicate:
		switch p.kind {
		case psmsg.KindPull:
			p.rows.tickets[p.lane] = rep.Ticket
			if p.kept > 0 { // it is not of all rows that will be pushed
				p.rows.tickets[p.lane] = 0
			}
			if p.flags == PullOption(0).flags() && c.keeps(p.rows) {
				p.rows.hot.take(p.rows, p, rep.Version)
			}
			call.Created += int(rep.Rows)
		case psmsg.KindPush, psmsg.KindPushDense:
			call.Refused += int(rep.Rows)
		}
		call.Version = max(call.Version, rep.Version)
		l.floor.raise(p, rep.Version)
	case psmsg.CodeStaleTicket:
		p.rows.tickets[p.lane] = 0
		// Not sent from here: sending may reconnect, and that polls.
		c.stale = append(c.stale, slotRef{l, slot})
		return
	default:
		err := &RefusedError{Worker: c.worker, Kind: p.kind, Clock: p.clock, Server: l.server.index, Group: c.resolver != nil, Code: rep.Code}
		if p.void { // it must be taken: what follows it waits
			// It never will be, over whatever connection: of a group whose last copy has failed
			// either. Each push there is answered so.
			lost := rep.Code == psmsg.CodeNoMemory || rep.Code == psmsg.CodeStorage
			switch {
			case lost && !c.cfg.Stepped:
				c.ends(err.because(c.refusal(l.server)))
			case rep.Code == psmsg.CodeClock && !c.cfg.Stepped:
				c.ends(err)
			case lost:
				l.release(slot)
			default:
				l.broken = err
			}
			return
		}
		if p.seq != 0 {
			call.missed = append(call.missed, p.lane)
		}
		if call.err == nil {
			call.err = err
			if rep.Code == psmsg.CodeNoMemory && !c.cfg.Stepped {
				call.err = err.because(c.refusal(l.server))
			}
			if rep.Code == psmsg.CodeStorage && !c.cfg.Stepped {
				call.err = fmt.Errorf("%w%s; what was checkpointed or saved before is safe", err, c.refusal(l.server))
			}
		}
		if p.seq != 0 { // what was pushed behind it would wait for ever
			c.makeVoid(l, slot)
			c.noteDone(call)
			return
		}
	}
	l.release(slot)
	c.noteDone(call)
}

// RefusedError is a server's answer that is not what was asked for.
type RefusedError struct {
	Worker int
	Kind   psmsg.Kind
	Clock  uint64
	Server int // or, with Group, a group's number
	Group  bool
	Code   psmsg.Code
	// Lost: a device that had its rows has failed, and nobody else has them.
	Lost bool
}

// because adds what the server said of why, "": nothing.
func (e *RefusedError) because(refusal string) error {
	switch e.Lost = deviceFailed(refusal); {
	case e.Code == psmsg.CodeStorage:
		return fmt.Errorf("%w%s; what was checkpointed or saved before is safe", e, refusal)
	default:
		return fmt.Errorf("%w%s", e, remedied(refusal))
	}
}

// deviceFailed says whether a server's refusal is that of a device which had rows.
func deviceFailed(refusal string) bool { return strings.Contains(refusal, " has failed: ") }

func (e *RefusedError) Error() string {
	who := "server"
	if e.Group {
		who = "group"
	}
	if e.Lost {
		return fmt.Sprintf("client: worker %d: %s at clock %d: %s %d has lost rows with the device that they were on", e.Worker, e.Kind, e.Clock, who, e.Server)
	}
	return fmt.Sprintf("client: worker %d: %s at clock %d: %s %d answers: %s", e.Worker, e.Kind, e.Clock, who, e.Server, e.Code)
}

// remedied adds what helps where a table is full; a device that is too small for a batch
// says itself which of its flags does.
func remedied(refusal string) string {
	switch {
	case strings.Contains(refusal, "raise --hbm-budget"):
		return refusal
	case deviceFailed(refusal):
		return refusal + "; what was checkpointed or saved before is safe: resume from that; give --hbm-journal, or leave --hbm-budget out"
	case strings.Contains(refusal, "growing failed"): // the disk, not the limit
		return refusal + "; free room on the disks of --ssd, add servers or use a smaller dimension"
	case strings.Contains(refusal, "ssd: the store is full"), strings.Contains(refusal, "of --ssd-limit"):
		return refusal + "; raise --ssd-limit, add servers or use a smaller dimension"
	}
	return refusal + "; raise --mem-budget, add servers or use a smaller dimension"
}

// refusalTimeout bounds asking a server why it refused.
const refusalTimeout = 5 * time.Second

// refusal asks a server for the numbers behind a refused request.
func (c *Client) refusal(s *serverConn) string {
	ctx, cancel := context.WithTimeout(c.ctx, refusalTimeout)
	defer cancel()
	var st psmsg.StatsReply
	if s.conn.Call(ctx, psmsg.MethodStats, struct{}{}, &st) != nil || st.Refusal == "" {
		return ""
	}
	return " (" + st.Refusal + ")"
}
