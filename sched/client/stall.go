package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/psmsg"
	"psrt/sched/stall"
)

// asked is a server that owes answers, and how it is asked why.
type asked struct {
	name string
	conn *dial.Conn
}

// describeStall says what the client's goroutine waits for: it runs there, once a
// wait, when that has become too long.
func (c *Client) describeStall() {
	var on, what []string
	var ask []asked
	for _, s := range c.servers {
		owed := ""
		for _, l := range c.lanesOf(s) {
			for i := range l.parts {
				if p := &l.parts[i]; p.active && owed == "" {
					owed = fmt.Sprintf("%s at clock %d, lane %d", p.kind, p.clock, l.index-s.firstLane)
				}
			}
		}
		if owed == "" {
			continue
		}
		name, peer := c.asks(s.index)
		on, what = append(on, name), append(what, owed)
		ask = append(ask, peer)
	}
	for _, r := range c.readers {
		if i := slices.IndexFunc(r.lane.parts, func(p part) bool { return p.active }); i >= 0 && r.conn != nil {
			p, g := &r.lane.parts[i], r.lane.server.index
			name := fmt.Sprintf("group %d, read from server %d", g, r.node.Server)
			on, what = append(on, name), append(what, fmt.Sprintf("%s at clock %d, lane 0", p.kind, p.clock))
			ask = append(ask, asked{name + " (" + r.conn.Peer + ")", r.conn})
		}
	}
	kind := stall.Completion
	if c.waitsForSlot {
		kind = stall.Credit
	}
	if len(on) > 0 {
		what = what[:1] // of the others it is the same, or nearly
	}
	c.gate.Describe(stall.Wait{On: stall.List(on), Kind: kind, What: strings.Join(what, "")}, askAll(ask, c.worker))
}

// stallLeast leaves out what servers have in hand in passing.
const stallLeast = 100 * time.Millisecond

// askAll asks servers, all at once, what they wait for.
func askAll(servers []asked, worker int) stall.Ask {
	return func(ctx context.Context) (all []stall.Wait) {
		said := make([][]stall.Wait, len(servers))
		var wg sync.WaitGroup
		for i, s := range servers {
			wg.Go(func() { said[i] = askOne(ctx, s, worker) })
		}
		wg.Wait()
		for _, w := range said {
			all = append(all, w...)
		}
		return all
	}
}

// stopped is what a server is that is connected and says nothing.
const stopped = "it is stopped, hung or cut off"

func askOne(ctx context.Context, s asked, worker int) []stall.Wait {
	if s.conn == nil {
		return nil
	}
	silent := func(what string) []stall.Wait {
		return []stall.Wait{{Who: s.name, Kind: stall.Silent, What: what}}
	}
	began := time.Now()
	var rep psmsg.WaitsReply
	err := s.conn.Call(ctx, psmsg.MethodWaits, psmsg.WaitsRequest{Worker: worker, LeastMicros: stallLeast.Microseconds()}, &rep)
	switch {
	case err == nil:
		return rep.Waits
	case ctx.Err() != nil:
		return silent(fmt.Sprintf("asked %.1f s ago: %s", time.Since(began).Seconds(), stopped))
	case errors.Is(err, rdma.ErrClosed), errors.Is(err, net.ErrClosed): // on this side: an endpoint had failed, and is connected again
		return silent("its connection was given up, and it has not taken another: " + stopped)
	}
	return silent(err.Error())
}

// slowCall is around a control call.
func (c *Client) slowCall(server int, method string) (end func()) {
	if c.cfg.Stall == nil {
		return func() {}
	}
	if c.resolver == nil {
		c.lock()
		defer c.unlock()
	}
	name, peer := c.asks(server)
	return beginCall(c.cfg.Stall, name, peer, method)
}

// home is what people call a server, or in a job with replicas a group.
func (c *Client) home(index int) string {
	if c.resolver != nil {
		return fmt.Sprintf("group %d", index)
	}
	return fmt.Sprintf("server %d", index)
}

// asks is what a server, or in a job with replicas the head of a group, is called, and
// how it is asked. Any goroutine, with groups; else the client's.
func (c *Client) asks(server int) (name string, peer asked) {
	if c.resolver == nil {
		s := c.servers[server]
		name = c.home(server)
		return name, asked{name + " (" + s.addr + ")", s.conn}
	}
	name = c.home(server)
	conn, _ := c.homes.of(server)
	if conn == nil {
		return name + " (its head is not reached)", asked{name, nil}
	}
	return name, asked{name + " (" + conn.Peer + ")", conn}
}

func beginCall(w *stall.Watch, name string, s asked, method string) (end func()) {
	kind := stall.Completion
	switch method {
	case psmsg.MethodBarrier:
		kind = stall.Barrier
	case psmsg.MethodCut, psmsg.MethodCutParts, psmsg.MethodCutDone, psmsg.MethodSave:
		kind = stall.Checkpoint
	}
	return w.Begin(kind, name, "control call "+method, askAll([]asked{s}, -1))
}
