package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/secure"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/stall"
)

// A client of a job with replicas connects its groups again beside its owner, who may
// be computing, or waiting for something that needs them: a keeper for each group
// that has lost its head. A stepped client has an owner who does that.

// turns lets the client's owner and its keepers take turns: whoever holds mu may
// touch the client, but while the owner is in Await the queues are in use.
type turns struct {
	on    atomic.Bool // what opens the client writes it
	mu    sync.Mutex
	idle  *sync.Cond
	rests bool // the owner is in Await
	wants int  // keepers that wait for it to end
	over  bool // the client is closed
	own   bool // the owner connects what breaks from here on
}

func (c *Client) lock() {
	if c.turn.on.Load() {
		c.turn.mu.Lock()
	}
}

func (c *Client) unlock() {
	if c.turn.on.Load() {
		c.turn.mu.Unlock()
	}
}

// rest is Await by the owner, who has the turn and gives it up meanwhile.
func (c *Client) rest(until time.Time) {
	t := &c.turn
	if !t.on.Load() {
		c.Await(until)
		return
	}
	if t.wants > 0 { // what they do is news
		for t.wants > 0 {
			t.idle.Wait()
		}
		return
	}
	t.rests = true
	t.mu.Unlock()
	c.Await(until)
	t.mu.Lock()
	t.rests = false
	t.idle.Broadcast()
}

// Rest is Await for the owner of a client that is not stepped, or for who waits in the
// owner's stead: what keepers do meanwhile it lets them do.
func (c *Client) Rest(until time.Time) {
	c.lock()
	defer c.unlock()
	c.rest(until)
}

// alone runs f in a keeper's turn, or a reader's; false: the client is closed.
func (c *Client) alone(f func()) bool {
	if !c.turn.on.Load() && c.cfg.Turn != nil { // a stepped client is its owner's
		return c.cfg.Turn(f)
	}
	t := &c.turn
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wants++
	for t.rests {
		c.mux.Wake()
		t.idle.Wait()
	}
	t.wants--
	defer t.idle.Broadcast()
	if t.over {
		return false
	}
	f()
	return true
}

// heal has a keeper for every group that is broken and has none. With the turn.
func (c *Client) heal() {
	for _, r := range c.Broken() {
		c.keepers.Go(rdma.Guarded(c.cfg.Host.OnPanic(), func() { c.keep(r, c.cfg.Timeout) }))
	}
}

// lost is told by any goroutine that a control connection has ended.
func (c *Client) lost() {
	own := true
	if c.turn.on.Load() {
		open := c.alone(func() {
			if own = c.turn.own; !own {
				c.heal()
			}
		})
		if !own || !open {
			return
		}
	}
	c.mux.Wake()
	if c.cfg.Lost != nil {
		c.cfg.Lost()
	}
}

// watch tells when a connection has ended: a transport may have nothing under way
// that would fail.
func (c *Client) watch(conn *dial.Conn) {
	c.watchers.Go(rdma.Guarded(c.cfg.Host.OnPanic(), func() {
		<-conn.Done()
		if c.ctx.Err() == nil {
			c.lost()
		}
	}))
}

// errClosed ends what is begun while the client is closed.
var errClosed = errors.New("client: it is closed")

// refusedFor is how long a client that is opened takes a server's no for one that
// may change: the server has not noticed that the process before this one is gone.
const refusedFor = time.Second

// keep connects a group, however often its head is another one, for at most limit.
func (c *Client) keep(r *Repair, limit time.Duration) {
	began := time.Now()
	limit = max(limit, 0) // the opening may be late already
	defer c.cfg.Stall.Begin(stall.Connection, fmt.Sprintf("the head of group %d", r.Server), r.why(), nil)()
	var noSince time.Time // the same head has said no
	var by place.Node
	for n := 0; ; n++ {
		err := c.attempt(r, began.Add(limit))
		if err == nil {
			return
		}
		r.Fail()
		if c.ctx.Err() != nil || !c.alone(func() { r.s.trouble = err }) {
			return
		}
		past := time.Since(began)
		if _, moved := psmsg.MovedIn(err); moved || !errors.Is(err, dial.ErrRefused) {
			noSince = time.Time{}
		} else if noSince.IsZero() || by != r.to.node {
			noSince, by = time.Now(), r.to.node
		}
		switch {
		case errors.As(err, new(*LostPushesError)), errors.Is(err, ErrTakenOver), errors.Is(err, secure.ErrToken), errors.Is(err, ErrNotOurs),
			r.Cause == nil && !noSince.IsZero() && time.Since(noSince) > refusedFor:
			c.fail(err)
			return
		case past > limit:
			c.fail(fmt.Errorf("client: worker %d: group %d (%s) is not reached within %v: %w; %s", c.worker, r.Server, r.why(), limit, err, c.resolver.report()))
			return
		}
		r.Pause(c.ctx, n)
	}
}

func (c *Client) attempt(r *Repair, deadline time.Time) (err error) {
	ctx, cancel := context.WithDeadline(c.ctx, deadline)
	defer cancel()
	turn := func(f func() error) error {
		if !c.alone(func() { err = f() }) {
			return errClosed
		}
		return err
	}
	if err := turn(func() error { r.Collect(); return nil }); err != nil {
		return err
	}
	if err := r.Dial(ctx); err != nil {
		return err
	}
	if err := turn(r.Attach); err != nil {
		return err
	}
	if err := r.Exchange(ctx); err != nil {
		return err
	}
	return turn(r.Finish)
}

// fail ends what waits for servers, with err, now and ever after.
func (c *Client) fail(err error) {
	c.alone(func() { c.ends(err) })
}

// ends is fail by who has the turn.
func (c *Client) ends(err error) {
	if c.failed == nil {
		c.failed = err
		if c.dead != nil {
			close(c.dead)
		}
	}
}

// failure is what fail was told.
func (c *Client) failure() error {
	c.lock()
	defer c.unlock()
	return c.failed
}

// openGroups connects all groups at once.
func (c *Client) openGroups(deadline time.Time) error {
	c.turn.on.Store(true)
	c.turn.mu.Lock()
	for i, s := range c.servers {
		s.down = true
		r := &Repair{Server: i, c: c, s: s}
		if i == 0 && c.cfg.Any { // it gives the number by which the others know us
			c.turn.mu.Unlock()
			c.keep(r, time.Until(deadline))
			c.turn.mu.Lock()
			if c.failed != nil {
				break
			}
			continue
		}
		c.keepers.Go(rdma.Guarded(c.cfg.Host.OnPanic(), func() { c.keep(r, time.Until(deadline)) }))
	}
	err := c.awaitGroups(deadline)
	if err == nil && !c.cfg.Stepped {
		c.makeReaders()
	}
	c.turn.own = err == nil && c.cfg.Stepped
	c.turn.mu.Unlock()
	if err == nil {
		c.aheads.begin(c.resolver.latest())
	}
	if err == nil && c.cfg.Stepped {
		c.keepers.Wait() // they are done, and nobody begins another
		c.turn.on.Store(false)
	}
	return err
}

// awaitGroups returns when no group is down. With the turn.
func (c *Client) awaitGroups(deadline time.Time) error {
	for {
		var down *serverConn
		for _, s := range c.servers {
			if s.down {
				down = s
			}
		}
		switch {
		case c.failed != nil:
			return c.failed
		case down == nil:
			return nil
		case c.ctx.Err() != nil:
			return context.Cause(c.ctx)
		case time.Now().After(deadline):
			return fmt.Errorf("client: worker %d: group %d is not reached: %w; %s", c.worker, down.index, errors.Join(down.trouble, context.DeadlineExceeded), c.resolver.report())
		}
		c.rest(deadline)
	}
}

// closeGroups ends what runs beside the owner. Connections are closed after it.
func (c *Client) closeGroups() {
	if c.resolver == nil {
		return
	}
	c.turn.mu.Lock()
	c.turn.over = true
	c.turn.mu.Unlock()
	c.end(errClosed)
	c.keepers.Wait()
	c.asking.Wait()
}
