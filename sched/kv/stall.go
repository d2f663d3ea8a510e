package kv

import (
	"fmt"
	"os"
	"time"

	"psrt/sched/stall"
)

// StallsAfter is a StallAfter that is as near to d as one may be.
func StallsAfter(d time.Duration) Duration { return Duration(min(max(d, 0), maxTimeout)) }

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
