package client

import (
	"slices"

	"psrt/sched/psmsg"
)

// PushState is the known state of one lane's part of a push.
type PushState uint8

const (
	// PushUnknown: the lane has not answered. The part is sent until it does.
	PushUnknown PushState = iota
	// PushCounts: the lane has taken it.
	PushCounts
	// PushMissing: the lane has not taken it, and is not sent it again.
	PushMissing
)

// PushPart is one lane's part of a push.
type PushPart struct {
	Lane, Server int
	Rows         int
	Seq          uint64 // 0: it was never sent
	Ends         bool   // it ends the worker's step
	State        PushState
	void         bool // what is sent now has no rows in it
}

// Doubt is what is known of a push that failed, or that its caller gave up. It changes as
// lanes answer, with the owner's turn.
type Doubt struct{ Parts []PushPart }

// Doubt tells what has become of a push of rows or of a dense vector. tick: it ends the
// step at every lane. posted: it was sent. Ask before Void.
func (c *Client) Doubt(call *Call, rows *Rows, dense *Dense, tick, posted bool) *Doubt {
	d := &Doubt{}
	add := func(lane, rows int) {
		part := PushPart{Lane: lane, Server: c.lanes[lane].server.index, Rows: rows, Ends: tick, State: PushMissing}
		if posted {
			part.State = PushCounts
		}
		d.Parts = append(d.Parts, part)
	}
	if dense != nil {
		for _, lane := range dense.lanes {
			add(lane, 1)
		}
	} else {
		for lane := range c.lanes {
			if n := rows.laneOff[lane+1] - rows.laneOff[lane]; n > 0 || tick {
				add(lane, n)
			}
		}
	}
	if !posted {
		return d
	}
	for i := range d.Parts {
		k := &d.Parts[i]
		if slices.Contains(call.missed, k.Lane) {
			k.State = PushMissing
			continue
		}
		l := c.lanes[k.Lane]
		for j := range l.parts {
			if p := &l.parts[j]; p.active && p.seq != 0 && (p.call == call || p.origin == call) {
				k.State, k.Seq, k.void, p.doubt = PushUnknown, p.seq, p.void, d
			}
		}
	}
	return d
}

// note takes a lane's answer. A void that was taken stands where the push would; one that is
// a duplicate came behind it.
func (d *Doubt) note(p *part, code psmsg.Code) {
	if d == nil || code == psmsg.CodeStaleTicket {
		return
	}
	for i := range d.Parts {
		k := &d.Parts[i]
		if k.Lane != p.lane || k.Seq != p.seq || k.State == PushMissing {
			continue
		}
		switch {
		case code == psmsg.CodeDuplicate, code == psmsg.CodeOK && !p.void:
			k.State = PushCounts
		default:
			k.State = PushMissing
		}
	}
}

// Heard takes a server's word on how far this worker's pushes count, by its lanes.
func (c *Client) Heard(d *Doubt, server int, last []uint64) {
	first := c.servers[server].firstLane
	for i := range d.Parts {
		k := &d.Parts[i]
		if k.Server != server || k.State != PushUnknown || k.void || k.Seq == 0 {
			continue
		}
		// A void that was made since may be what the server has taken.
		l := c.lanes[k.Lane]
		void := slices.ContainsFunc(l.parts, func(p part) bool { return p.active && p.seq == k.Seq && p.void })
		if at := k.Lane - first; !void && at >= 0 && at < len(last) && last[at]+l.base >= k.Seq {
			k.State = PushCounts
		}
	}
}

// LaneOf is the lane that has a key.
func (c *Client) LaneOf(key uint64) int { return c.cfg.Map.LaneOf(key) }
