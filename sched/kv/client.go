package kv

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/psmsg"
	"psrt/sched/stall"
)

// Client is one worker of a job, for any number of goroutines.
type Client struct {
	cfg     Config
	host    *dial.Host
	ownHost bool
	job     psmsg.DescribeReply
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	closed    atomic.Bool
	bug       atomic.Pointer[Error]
	inside    atomic.Int64  // calls in progress
	copied    atomic.Uint64 // Stats.CopiedBytes
	emptied   chan struct{} // capacity 1: inside became 0 after Close began
	ended     chan struct{} // closed when Close is done
	helpers   sync.WaitGroup
	memory    memories
	finish    chan *op // asynchronous ops whose call is done
	begin     sync.Once
	requests  requests
	lingering atomic.Int64 // unfinished calls: see Options.Linger
	barriers  barriers

	mu     sync.Mutex
	c      *client.Client
	step   uint64
	ticked bool // this client ends its steps
	// finished says that it takes no more steps, from step on.
	finished atomic.Bool
	doubts   doubts
	// suspected is when it was last looked at whether what it waits for can ever come;
	// suspecting: that is being looked at.
	suspected  time.Time
	suspecting bool
	blames     blames
	queue      []*op // not posted yet, in order
	live       []*op // posted
	zombies    []*op // given up by their callers, not yet answered
	driving    bool
	waiting    int        // who wants the queues to itself
	idle       *sync.Cond // driving became false
	async      int        // asynchronous ops in queue and live
	pump       pump
	lost       map[int]error // by server: why it is down
	tables     map[string]*Table
	order      []*Table
	dense      denseState
	tick       *client.Rows
	stepped    stepped
	stats      Stats
	stall      *stall.Watch // nil: nobody wants to know
	beside     Companion    // nil: there is none
}

// Companion is what works with a client's memory beside it: End is called when no
// call is under way and no server reaches anything, before the memory goes.
type Companion interface {
	End()
	Report() any // for StatsJSON
}

// Accompany gives the client its companion, before anything is called.
func (c *Client) Accompany(b Companion) { c.beside = b }

// stepped is what waits for the end of a bsp step: gradients, and how many tables
// they are for, the dense vector being one.
type stepped struct {
	bytes   int64
	vectors int
}

// Stats counts since the client was opened.
type Stats struct {
	Pulls      uint64 `json:"pulls"`
	Pushes     uint64 `json:"pushes"`
	PulledRows uint64 `json:"pulled_rows"`
	PushedRows uint64 `json:"pushed_rows"`
	// RefusedRows is rows of pushes, and blocks of dense ones, whose gradient was not finite.
	RefusedRows uint64 `json:"refused_rows"`
	Direct      uint64 `json:"direct"` // pulls and pushes without a copy
	// CopiedBytes is rows and vectors copied between the callers' memory and the
	// client's; TestCopies holds it against what the calls are.
	CopiedBytes uint64 `json:"copied_bytes"`
	Timeouts    uint64 `json:"timeouts"`
	Repairs     uint64 `json:"repairs"` // connections made again
}

// enter begins a call; leave ends it. Close waits for all.
func (c *Client) enter() error {
	c.inside.Add(1)
	if err := c.over(); err != nil {
		c.leave()
		return err
	}
	return nil
}

func (c *Client) leave() {
	if c.inside.Add(-1) == 0 && c.closed.Load() {
		select {
		case c.emptied <- struct{}{}:
		default:
		}
	}
}

// leaveWithin bounds telling the servers that this worker is gone.
const leaveWithin = 2 * time.Second

// Close ends the client. Calls in progress return an Error with code Closed;
// when Close returns nothing of the caller's is touched any more. A second Close
// waits for the first.
func (c *Client) Close() {
	if c.closed.Swap(true) {
		<-c.ended
		return
	}
	defer close(c.ended)
	c.cancel()
	c.mu.Lock()
	c.wakeAll()
	c.mu.Unlock()
	for c.inside.Load() > 0 {
		<-c.emptied
	}
	c.helpers.Wait()
	c.goodbye()
	c.c.Close() // from here on no server reaches anything
	for _, o := range c.zombies {
		if o.forgotten != nil {
			o.forgotten()
		}
	}
	for _, t := range c.order {
		t.sets.close()
	}
	c.dense.close()
	if c.tick != nil {
		c.tick.Close()
	}
	if c.beside != nil {
		c.beside.End()
	}
	c.memory.close()
	if c.ownHost {
		c.host.Close()
	}
}

// goodbye takes the worker out of the clocks of the servers that are up.
func (c *Client) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	c.mu.Lock()
	down := map[int]bool{}
	for _, s := range c.c.Down() {
		down[s] = true
	}
	c.mu.Unlock()
	var all sync.WaitGroup
	for i := range c.c.Servers() {
		if !down[i] {
			all.Go(c.guarded(func() { _ = c.c.CallServer(ctx, i, psmsg.MethodLeave, struct{}{}, &struct{}{}) }))
		}
	}
	all.Wait()
}

// timeout is a call's limit: its own, or the client's.
// Within is how long a call waits that asks for d.
func (c *Client) Within(d time.Duration) time.Duration { return c.timeout(d) }

func (c *Client) timeout(d time.Duration) time.Duration {
	if d <= 0 {
		d = time.Duration(c.cfg.Timeout)
	}
	return min(d, maxTimeout)
}

// Worker is this client's number among them; where clients come and go the server
// gave it. Workers is how many clients the job has, or there the most, Staleness how far they may be apart:
// 0 is bsp, -1 asp.
func (c *Client) Worker() int    { return c.c.Worker() }
func (c *Client) Workers() int   { return c.job.Workers }
func (c *Client) Staleness() int { return c.job.Staleness }
