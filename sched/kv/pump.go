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
		c.help(c.runPump)
		for range finishers {
			c.help(func() {
				for o := range c.finish {
					o.finished(o)
				}
			})
		}
	})
}

// runPump drives until the client is over, and then ends all asynchronous requests:
// also after a panic, which is an end of the client.
func (c *Client) runPump() {
	for !c.pumped() {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.finish)
}

func (c *Client) pumped() (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if v := recover(); v != nil {
			c.driving = false
			c.broken(FaultError(v))
		}
	}()
	for {
		now := time.Now()
		next := now.Add(lookEvery)
		for _, list := range [2][]*op{c.live, c.queue} {
			for i := len(list) - 1; i >= 0; i-- {
				o := list[i]
				switch {
				case o.finished == nil:
				case c.over() != nil:
					c.giveUp(o, c.over())
				case !now.Before(o.deadline):
					c.giveUp(o, c.late(o, o.within()))
				default:
					next = earlier(next, o.deadline)
				}
			}
		}
		switch {
		case c.over() != nil:
			return true
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
