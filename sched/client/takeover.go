package client

import (
	"context"
	"errors"
	"fmt"

	"psrt/sched/psmsg"
)

// ErrTakenOver: another process has this worker's number now.
var ErrTakenOver = errors.New("client: this worker's number was taken over by another process: this one ends; what it had pushed counts once")

// takenOver makes a server's refusal ErrTakenOver.
func takenOver(err error) error {
	if psmsg.IsTakenOver(err) {
		return fmt.Errorf("%w (%v)", ErrTakenOver, err)
	}
	return err
}

// Standing is, by lane, how far the worker had come when the client was opened: of
// one with a Generation above 1, under the processes before it.
func (c *Client) Standing() []psmsg.Standing {
	all := make([]psmsg.Standing, len(c.lanes))
	for i, l := range c.lanes {
		all[i] = l.standing
	}
	return all
}

// GoOn has the client go on for the processes before it: the pushes of step from and
// those after it are the next ones, and pushed is how many of the steps before it each
// lane has been sent. A lane that has some of them already answers that, and counts
// them once. Call it before anything is pulled or pushed.
func (c *Client) GoOn(ctx context.Context, from uint64, pushed func(lane int) uint64) error {
	c.lock()
	c.goesOn, c.from = true, from
	for i, l := range c.lanes {
		l.seq = pushed(i)
		l.before = l.seq
		c.lookBack(l)
	}
	c.unlock()
	for i := range c.servers {
		if err := c.CallAgain(ctx, i, psmsg.MethodGoOn, psmsg.GoOnRequest{From: from}, &struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

// lookBack notes where a lane's server, the group's newest head, cannot answer the first
// pulls of who goes on as the one before was. With the turn.
func (c *Client) lookBack(l *laneConn) {
	if c.goesOn && l.seq == l.before && !l.newest.Gives(c.from) {
		c.inexact = true
	}
}

// Inexact says whether some server, since GoOn and before the first push to it, had added up
// the step that this client goes on in, and nothing kept of the values before.
func (c *Client) Inexact() bool {
	c.lock()
	defer c.unlock()
	return c.inexact
}

// had says whether a lane has the next push of this worker from a process before, whatever
// is in it: that one chose by itself what to send. So of what the push leaves out nothing may be
// kept for a later one, where it would count twice.
func (c *Client) had(lane int) bool {
	l := c.lanes[lane]
	return c.goesOn && l.seq < max(l.standing.Last, l.newest.Last)
}

// Lanes is the number of lanes of all servers.
func (c *Client) Lanes() int { return len(c.lanes) }

// Lanes are those that have a part of the vector.
func (d *Dense) Lanes() []int { return d.lanes }
