package kv

import "time"

// lookEvery bounds how long a driver waits for the network before it looks at the
// control connections.
const lookEvery = 200 * time.Millisecond

// do submits ops together and waits for all. It returns the first error.
func (c *Client) do(ops ...*op) (err error) {
	c.mu.Lock()
	defer func() { // a bug: the lock must not stay taken
		if v := recover(); v != nil {
			err = FaultError(v)
			c.driving = false
			c.broken(err)
			c.mu.Unlock()
		}
	}()
	for _, o := range ops {
		c.submit(o)
	}
	c.settle()
	for _, o := range ops {
		c.wait(o, time.Time{})
	}
	c.passOn()
	c.mu.Unlock()
	for _, o := range ops {
		if o.err != nil {
			return c.explain(c.blame(o, o.err))
		}
	}
	return nil
}

// wait returns when o is done, or when until has passed, if it is not zero. With mu, which
// it gives up meanwhile.
func (c *Client) wait(o *op, until time.Time) {
	for !o.done {
		now, next := time.Now(), o.deadline
		if !until.IsZero() {
			if !now.Before(until) {
				return
			}
			next = earlier(next, until)
		}
		switch {
		case c.over() != nil:
			c.giveUp(o, c.over())
		case !now.Before(o.deadline):
			c.giveUp(o, c.late(o, o.within()))
		case c.driving || c.waiting > 0:
			c.sleep(o, next.Sub(now))
		default:
			c.drive(earlier(next, now.Add(lookEvery)))
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// drive lets one waiter wait for the network, for all. With mu, which it gives up
// meanwhile.
func (c *Client) drive(until time.Time) {
	c.driving = true
	c.await(until)
	c.c.Step()
	c.driving = false
	if c.waiting > 0 {
		c.idle.Broadcast()
	}
	c.settle()
	c.suspect(time.Now())
}

func (c *Client) await(until time.Time) {
	c.mu.Unlock()
	defer c.mu.Lock()
	c.c.Await(until)
}

// sleep waits until somebody wakes o, for at most limit. With mu, which it gives
// up meanwhile.
func (c *Client) sleep(o *op, limit time.Duration) {
	o.asleep = true
	c.mu.Unlock()
	t := time.NewTimer(limit)
	select {
	case <-o.wake:
	case <-t.C:
	}
	t.Stop()
	c.mu.Lock()
	o.asleep = false
}

// passOn finds another driver when this one has what it wanted. With mu.
func (c *Client) passOn() {
	if c.driving || c.waiting > 0 {
		return
	}
	for _, list := range [2][]*op{c.live, c.queue} {
		for _, o := range list {
			if o.asleep {
				o.rouse()
				return
			}
		}
	}
	if c.async > 0 {
		c.pump.rouse()
	}
}

// wakeAll makes every waiter look again. With mu.
func (c *Client) wakeAll() {
	for _, list := range [2][]*op{c.live, c.queue} {
		for _, o := range list {
			o.rouse()
		}
	}
	c.pump.rouse()
	c.idle.Broadcast()
	c.c.Wake()
}

// turn is alone for the client's own goroutines: false where c is over.
func (c *Client) turn(f func()) bool {
	return c.alone(func() error { f(); return nil }) == nil
}

// alone runs f while nobody else looks at the completion queues.
func (c *Client) alone(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting++
	for c.driving && c.over() == nil {
		c.c.Wake()
		c.idle.Wait()
	}
	c.waiting--
	if err := c.over(); err != nil {
		return err
	}
	err := f()
	if c.c != nil { // a keeper may have the turn before opening is over
		c.settle()
		c.passOn()
	}
	return err
}
