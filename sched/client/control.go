package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/psmsg"
	"psrt/sched/stall"
)

// CallServer calls a control method of one server.
func (c *Client) CallServer(ctx context.Context, server int, method string, req, resp any) error {
	defer c.slowCall(server, method)()
	if c.resolver != nil {
		return c.callGroup(ctx, server, method, req, resp)
	}
	if err := c.connOf(server).Call(ctx, method, req, resp); err != nil {
		return fmt.Errorf("client: worker %d: %s at server %d: %w", c.worker, method, server, err)
	}
	return nil
}

func (c *Client) connOf(server int) *dial.Conn {
	c.lock()
	defer c.unlock()
	return c.servers[server].conn
}

// brokenWithin is how long after a call that failed its connection is seen to have
// ended, if that is why.
const brokenWithin = time.Second

// CallAgain is CallServer for what may be asked twice: where the connection breaks
// it is made again, and the server asked anew.
func (c *Client) CallAgain(ctx context.Context, server int, method string, req, resp any) error {
	if c.resolver != nil { // which asks again by itself
		return c.CallServer(ctx, server, method, req, resp)
	}
	for {
		conn := c.connOf(server)
		err := c.CallServer(ctx, server, method, req, resp)
		if err == nil || ctx.Err() != nil {
			return err
		}
		wait := time.NewTimer(brokenWithin)
		select {
		case <-conn.Done():
			wait.Stop()
		case <-wait.C:
			return err
		}
		if e := c.Look(); e != nil {
			return errors.Join(err, e)
		}
	}
}

// Caller calls control methods beside the client's goroutine, over the
// connections that there were when it was made; in a job with replicas over those
// that there are.
type Caller struct {
	groups *Client // nil without replicas
	worker int
	conns  []*dial.Conn
	stall  *stall.Watch
}

// Caller makes one.
func (c *Client) Caller() *Caller {
	k := &Caller{worker: c.worker, stall: c.cfg.Stall}
	if c.resolver != nil {
		k.groups = c
		return k
	}
	for i := range c.servers {
		k.conns = append(k.conns, c.connOf(i))
	}
	return k
}

// CallServer is Client's, from any goroutine.
func (k *Caller) CallServer(ctx context.Context, server int, method string, req, resp any) error {
	if k.groups != nil {
		return k.groups.CallServer(ctx, server, method, req, resp)
	}
	name := fmt.Sprintf("server %d", server)
	defer beginCall(k.stall, name, asked{name, k.conns[server]}, method)()
	if err := k.conns[server].Call(ctx, method, req, resp); err != nil {
		return fmt.Errorf("client: worker %d: %s at server %d: %w", k.worker, method, server, err)
	}
	return nil
}

// Servers is the number of servers.
func (k *Caller) Servers() int {
	if k.groups != nil {
		return k.groups.Servers()
	}
	return len(k.conns)
}

// Servers is the number of servers.
func (c *Client) Servers() int { return len(c.servers) }

// Transports says how each server is reached and why.
func (c *Client) Transports() []string {
	var out []string
	if c.resolver != nil {
		for _, l := range c.Links() {
			what := ""
			if l.Reads {
				what = " to read"
			}
			out = append(out, fmt.Sprintf("server %d (%d groups%s, %d queue pairs) by %s", l.Server, l.Groups, what, l.QueuePairs, l.Reason))
		}
		return out
	}
	for i := range c.servers {
		out = append(out, fmt.Sprintf("server %d by %s", i, c.connOf(i).Reason))
	}
	return out
}

// Transport is the name of the transport to a server.
func (c *Client) Transport(server int) string {
	c.lock()
	defer c.unlock()
	return c.servers[server].conn.Transport
}

// Carry tells every server that this worker pulls and pushes for others, too, which
// never connect. It is called before the first pull.
func (c *Client) Carry(ctx context.Context, workers []int) error {
	for i := range c.servers {
		if err := c.CallAgain(ctx, i, psmsg.MethodCarry, psmsg.CarryRequest{Workers: workers}, &struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

// Leave tells every server that this worker's clock no longer counts.
func (c *Client) Leave(ctx context.Context) error {
	if c.resolver != nil {
		return c.leaveGroups(ctx)
	}
	for i := range c.servers {
		if err := c.CallServer(ctx, i, psmsg.MethodLeave, struct{}{}, &struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

// Close ends all connections. Working sets are closed by their owner, before.
func (c *Client) Close() {
	c.unwatch()
	c.closeGroups()
	c.gate.Close()
	for _, s := range c.servers {
		if s.conn != nil {
			s.conn.Close()
		}
	}
	c.watchers.Wait()
	for _, l := range c.lanes {
		for slot := range l.standIns {
			l.dismiss(slot)
		}
		l.closeRing(c)
	}
	for _, r := range c.readers {
		r.lane.closeRing(c)
	}
	if c.rings != nil {
		c.rings.close()
	}
	c.press.close()
	_ = c.audit.Close() // the record says itself how it ended
	c.mux.Close()
}
