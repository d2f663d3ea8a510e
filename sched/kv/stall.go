package kv

import (
	"fmt"
	"os"
	"time"

	"psrt/sched/stall"
)

// watchStalls begins to tell what takes too long, where somebody wants to know.
func (c *Client) watchStalls() {
	if c.cfg.StallAfter == 0 {
		return
	}
	say := c.cfg.Say
	if say == nil {
		say = func(string) {}
	}
	c.stall = stall.New(stall.Config{Rank: fmt.Sprintf("trainer (process %d)", os.Getpid()), After: time.Duration(c.cfg.StallAfter), Say: say})
	c.helpers.Go(c.guarded(func() { c.stall.Run(c.ctx) }))
}
