package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"psrt/sched/psmsg"
	"psrt/sched/stall"
)

// repair dials again the servers of which a lane is broken and sends their
// unanswered requests once more, in their old order.
func (c *Client) repair(deadline time.Time) error {
	if c.failed != nil {
		return c.failed
	}
	if c.resolver != nil {
		c.heal()
		return c.failed
	}
	for _, s := range c.servers {
		cause := c.breakage(s)
		if cause == nil {
			continue
		}
		if err := c.reconnect(s, cause, deadline); err != nil {
			return err
		}
	}
	return nil
}

// breakage is the first error among a server's lanes.
func (c *Client) breakage(s *serverConn) error {
	for i := range c.cfg.Map.LanesOf(c.cfg.Map.Servers[s.index].ID) {
		if err := c.lanes[s.firstLane+i].broken; err != nil {
			return err
		}
	}
	return nil
}

// Between attempts the pause doubles from the first to the last of these.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

func (c *Client) reconnect(s *serverConn, cause error, deadline time.Time) error {
	s.conn.Close()
	defer c.cfg.Stall.Begin(stall.Connection, fmt.Sprintf("server %d (%s)", s.index, s.addr), "connecting again: "+cause.Error(), nil)()
	var last error
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		c.collect()
		ctx, cancel := context.WithDeadline(c.ctx, deadline)
		last = c.connect(ctx, s)
		cancel()
		if last == nil {
			last = c.resendAll(s)
		}
		if last == nil {
			return nil
		}
		s.conn.Close()
		if psmsg.IsTakenOver(last) {
			return takenOver(last)
		}
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		if time.Now().Add(pause).After(deadline) {
			return fmt.Errorf("client: worker %d lost server %d (%w) and could not reach it again: %v", c.worker, s.index, cause, last)
		}
		select {
		case <-time.After(pause):
		case <-c.ctx.Done(): // the next attempt fails at once and says why
		}
	}
}

func (c *Client) resendAll(s *serverConn) error {
	for i := range c.cfg.Map.LanesOf(c.cfg.Map.Servers[s.index].ID) {
		l := c.lanes[s.firstLane+i]
		c.stale = slices.DeleteFunc(c.stale, func(r slotRef) bool { return r.lane == l })
		if err := c.resend(l); err != nil {
			return err
		}
	}
	return nil
}

// resend sends a lane's unanswered requests: pushes by sequence, then pulls. One that this
// connection cannot carry ends alone.
// Tickets are of the old connection; the pushes go with keys.
func (c *Client) resend(l *laneConn) error {
	var slots []int
	for i := range l.parts {
		if p := &l.parts[i]; p.active {
			slots = append(slots, i)
			if p.rows != nil {
				p.rows.tickets[p.lane] = 0
			}
		}
	}
	slices.SortFunc(slots, func(a, b int) int {
		x, y := &l.parts[a], &l.parts[b]
		if (x.seq == 0) != (y.seq == 0) {
			if x.seq == 0 {
				return 1
			}
			return -1
		}
		return int(int64(x.seq) - int64(y.seq))
	})
	for _, slot := range slots {
		if err := c.encode(l, slot); err != nil {
			c.cannot(l, slot, err)
			continue
		}
		if err := l.post(slot); err != nil {
			return err
		}
	}
	return nil
}
