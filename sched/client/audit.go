package client

import (
	"fmt"

	"psrt/sched/audit"
	"psrt/sched/psmsg"
)

// record begins the record of what is asked and answered, where one is wanted.
func (c *Client) record() (err error) {
	if c.cfg.Audit == nil {
		return nil
	}
	if c.audit, err = c.cfg.Audit(c.worker, c.id, c.cfg.Map); err != nil {
		return fmt.Errorf("client: worker %d: %w", c.worker, err)
	}
	return nil
}

// Audit is the client's record, nil without one. It belongs to the client's
// goroutine.
func (c *Client) Audit() *audit.Worker { return c.audit }

// noteAsk numbers a pull that is about to be posted.
func (c *Client) noteAsk(table uint32, clock uint64, opt PullOption) uint64 {
	if c.audit == nil || opt&NoValues != 0 {
		return 0
	}
	return c.audit.Ask(table, clock, noteFlags(opt.flags()))
}

// noteKept records the values that a pull has from the client itself: a lane's last
// rows.
func (c *Client) noteKept(r *Rows, lane, kept int, call *Call) {
	if c.audit == nil {
		return
	}
	dim := r.spec.Dim
	for at := r.laneOff[lane+1] - kept; at < r.laneOff[lane+1]; at++ {
		row := r.hot.rows[r.keys[at]]
		c.audit.Kept(audit.Pull{Call: call.number, Lane: lane, Table: r.spec.ID, Clock: call.clock, Version: row.version, Flags: noteFlags(PullOption(0).flags())},
			row.clock, r.keys[at], r.vals[at*dim:(at+1)*dim])
	}
}

func noteFlags(f psmsg.Flags) (to audit.Flags) {
	if f&psmsg.FlagCreate != 0 {
		to |= audit.Creates
	}
	if f&psmsg.FlagNoClock != 0 {
		to |= audit.AnyClock
	}
	if f&psmsg.FlagTick != 0 {
		to |= audit.Tick
	}
	return to
}

// notePush names a push in the record's terms.
func notePush(p *part) audit.Pushed {
	to := audit.Pushed{Lane: p.lane, Table: audit.DenseTable, Seq: p.seq, Clock: p.clock, Flags: noteFlags(p.flags)}
	if p.kind == psmsg.KindPush {
		to.Table = p.rows.spec.ID
	}
	if p.absent {
		to.Flags |= audit.Absent
	}
	return to
}

// noteSend records a push, which has its gradients from here on until it is
// answered.
func (c *Client) noteSend(p *part) {
	if c.audit == nil || p.seq == 0 {
		return
	}
	if p.kind == psmsg.KindPushDense {
		c.audit.SendDense(notePush(p), p.dense.grads)
		return
	}
	first, end, width := p.rows.laneOff[p.lane], p.rows.laneOff[p.lane+1], p.rows.spec.PushFloats()
	c.audit.Send(notePush(p), p.rows.keys[first:end], p.rows.grads[first*width:], width)
}

// noteAnswer records a lane's answer before the memory is anybody else's.
func (c *Client) noteAnswer(p *part, rep *psmsg.Reply) {
	if c.audit == nil || p.void {
		return
	}
	switch p.kind {
	case psmsg.KindPush, psmsg.KindPushDense:
		c.audit.Done(notePush(p), uint8(rep.Code), rep.Version, rep.Rows)
	case psmsg.KindPull, psmsg.KindPullDense:
		if rep.Code != psmsg.CodeOK || p.flags&psmsg.FlagNoValues != 0 {
			return
		}
		a := audit.Pull{Call: p.call.number, Lane: p.lane, Table: audit.DenseTable, Clock: p.clock, Version: rep.Version, Flags: noteFlags(p.flags)}
		if p.kind == psmsg.KindPullDense {
			c.audit.SeenDense(a, p.dense.vals)
			return
		}
		first, end, dim := p.rows.laneOff[p.lane], p.rows.laneOff[p.lane+1]-p.kept, p.rows.spec.Dim
		a.Table = p.rows.spec.ID
		c.audit.Seen(a, p.rows.keys[first:end], p.rows.vals[first*dim:], dim)
	}
}
