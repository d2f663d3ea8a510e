package client

import (
	"fmt"
	"time"

	"psrt/sched/psmsg"
)

// announceSlots are how many of a lane's slots announcements take at a time, and
// how many they leave to what somebody waits for.
const announceSlots = 2

// TryAnnounce is Announce for a stepped client: a lane that has no room for it now
// is not told.
func (c *Client) TryAnnounce(r *Rows, clock uint64, call *Call) {
	*call = Call{what: psmsg.KindAnnounce, clock: clock, inUse: &r.calls}
	for i := range c.lanes {
		lane := c.rotate(i)
		if l := c.lanes[lane]; r.laneOff[lane+1] > r.laneOff[lane] && l.room() && len(l.free) > announceSlots && l.announcing() < announceSlots {
			c.place(part{call: call, kind: psmsg.KindAnnounce, clock: clock, rows: r, lane: lane})
		}
	}
}

// announcing counts announcements that the lane has not answered.
func (l *laneConn) announcing() (n int) {
	for i := range l.parts {
		if l.parts[i].active && l.parts[i].kind == psmsg.KindAnnounce {
			n++
		}
	}
	return n
}

// Announce tells the lanes that the planned rows will be pulled at clock. It waits
// for earlier announcements, which lanes answer as they come, and for nothing else:
// a lane that is broken, or that has no slot to spare, is not told. r may be planned
// anew when call is done.
func (c *Client) Announce(r *Rows, clock uint64, call *Call) error {
	c.lock()
	defer c.unlock()
	*call = Call{what: psmsg.KindAnnounce, clock: clock, inUse: &r.calls}
	deadline := time.Now().Add(c.cfg.Timeout)
	for i := range c.lanes {
		lane := c.rotate(i)
		l := c.lanes[lane]
		if r.laneOff[lane+1] == r.laneOff[lane] {
			continue
		}
		for l.announcing() >= announceSlots {
			if err := c.progress(deadline); err != nil {
				return fmt.Errorf("client: worker %d: lane %d (%s) answers no announcement: %w", c.worker, l.index, c.home(l.server.index), err)
			}
		}
		if l.broken != nil || len(l.free) <= announceSlots {
			continue
		}
		if err := c.issue(part{call: call, kind: psmsg.KindAnnounce, clock: clock, rows: r, lane: lane}); err != nil {
			return err
		}
	}
	return nil
}
