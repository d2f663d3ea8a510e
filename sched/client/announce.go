package client

import "psrt/sched/psmsg"

// announceSlots are the slots of a lane that announcements leave free, for what
// somebody waits for.
const announceSlots = psmsg.Slots / 2

// TryAnnounce is Announce for a stepped client.
func (c *Client) TryAnnounce(r *Rows, clock uint64, call *Call) {
	*call = Call{what: psmsg.KindAnnounce, clock: clock, inUse: &r.calls}
	for i := range c.lanes {
		lane := c.rotate(i)
		if l := c.lanes[lane]; r.laneOff[lane+1] > r.laneOff[lane] && l.room() && len(l.free) > announceSlots {
			c.place(part{call: call, kind: psmsg.KindAnnounce, clock: clock, rows: r, lane: lane})
		}
	}
}

// Announce tells the lanes that the planned rows will be pulled at clock. It
// never waits: a lane that has no room for it now is not told. r may be planned
// anew when call is done.
func (c *Client) Announce(r *Rows, clock uint64, call *Call) error {
	*call = Call{what: psmsg.KindAnnounce, clock: clock, inUse: &r.calls}
	for i := range c.lanes {
		lane := c.rotate(i)
		l := c.lanes[lane]
		if r.laneOff[lane+1] == r.laneOff[lane] || l.broken != nil || len(l.free) <= announceSlots {
			continue
		}
		if err := c.issue(part{call: call, kind: psmsg.KindAnnounce, clock: clock, rows: r, lane: lane}); err != nil {
			return err
		}
	}
	return nil
}
