package kv

import "time"

// pump is the goroutine that drives asynchronous requests while nobody else does.
// It begins with the first of them.
type pump struct {
	wake chan struct{} // capacity 1
}

func (p *pump) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// finishers is how many goroutines end asynchronous requests: they copy rows and
// call callbacks, which may be slow.
const finishers = 2

// startAsync starts what asynchronous requests need, once.
func (c *Client) startAsync() {
	c.begin.Do(func() {
		c.helpers.Go(c.runPump)
		for range finishers {
			c.helpers.Go(func() {
				for o := range c.finish {
					o.finished(o)
				}
			})
		}
	})
}

func (c *Client) runPump() {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(c.finish)
	for {
		now := time.Now()
		next := now.Add(lookEvery)
		for _, list := range [2][]*op{c.live, c.queue} {
			for i := len(list) - 1; i >= 0; i-- {
				o := list[i]
				switch {
				case o.finished == nil:
				case c.closed.Load():
					c.giveUp(o, errClosed)
				case !now.Before(o.deadline):
					c.giveUp(o, c.late(o, " in time"))
				default:
					next = earlier(next, o.deadline)
				}
			}
		}
		switch {
		case c.closed.Load():
			return
		case c.async > 0 && !c.driving && c.waiting == 0:
			c.drive(next)
		default:
			limit := time.Hour
			if c.async > 0 {
				limit = next.Sub(now)
			} else {
				c.passOn() // who came while this goroutine drove sleeps
			}
			c.mu.Unlock()
			t := time.NewTimer(limit)
			select {
			case <-c.pump.wake:
			case <-t.C:
			}
			t.Stop()
			c.mu.Lock()
		}
	}
}
