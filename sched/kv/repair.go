package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/sched/client"
	"psrt/sched/psmsg"
)

const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// repair connects one server again, however long that takes.
func (c *Client) repair(r *client.Repair) {
	c.setLost(r.Server, fmt.Errorf("server %d is lost: %w", r.Server, r.Cause))
	pause := firstPause
	for n := 0; ; n++ {
		err := c.attempt(r)
		if err == nil {
			return
		}
		r.Fail()
		if errors.Is(err, client.ErrNotOurs) { // and will be at every attempt
			c.broken(err)
			return
		}
		c.setLost(r.Server, fmt.Errorf("server %d is lost (%v) and cannot be reached again: %w", r.Server, r.Cause, err))
		if c.job.Chains != nil { // the next head may be known at any moment
			r.Pause(c.ctx, n)
			if c.ctx.Err() != nil {
				return
			}
			continue
		}
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

func (c *Client) setLost(server int, err error) {
	c.mu.Lock()
	c.lost[server] = err
	c.mu.Unlock()
}

func (c *Client) attempt(r *client.Repair) error {
	if err := c.alone(func() error { r.Collect(); return nil }); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, time.Duration(c.cfg.ConnectTimeout))
	defer cancel()
	if err := r.Dial(ctx); err != nil {
		return err
	}
	var step uint64
	var tables []*Table
	err := c.alone(func() error {
		step, tables = r.OldestStep(c.step), append(tables, c.order...)
		return r.Attach()
	})
	if err != nil {
		return err
	}
	if err := r.Exchange(ctx); err != nil {
		return err
	}
	// A server that was started again knows neither step nor tables.
	var at psmsg.EnterReply
	if c.cfg.Aside {
		tables = nil
	}
	switch end, finished := c.lastStep(); {
	case c.cfg.Aside || c.cfg.Looks:
	case finished:
		if err := r.Call(ctx, psmsg.MethodFinish, psmsg.FinishRequest{Step: end}, &struct{}{}); err != nil {
			return err
		}
	default:
		if err := r.Call(ctx, psmsg.MethodEnter, psmsg.EnterRequest{Step: &step, Workers: c.quorum(), Back: true}, &at); err != nil {
			return err
		}
		if at.Refused != "" {
			return c.refusal(&refusedEnter{at})
		}
	}
	for _, t := range tables {
		if err := t.reopen(func(method string, req, resp any) error { return r.Call(ctx, method, req, resp) }); err != nil {
			return err
		}
	}
	return c.alone(func() error {
		delete(c.lost, r.Server)
		if err := r.Finish(); err != nil {
			c.lost[r.Server] = err
			return err
		}
		return nil
	})
}
