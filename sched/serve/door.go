package serve

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/psmsg"
	"psrt/sched/server"
)

// door is one group's server, behind a door for trainers: it opens when what is to be
// loaded is there, and closes before the last save. Other servers, and who keeps them,
// pass.
type door struct {
	*server.Server
	r *Replica
}

// openWithin is how long a trainer waits at the door.
const openWithin = 30 * time.Second

// Handle implements replica.Group.
func (g *door) Handle(ctx context.Context, in *dial.Incoming) {
	var hello psmsg.Hello
	r := g.r
	if json.Unmarshal(in.Hello, &hello) != nil || hello.Link != nil || !hello.Any && hello.Worker == r.cfg.Clients {
		g.Server.Handle(ctx, in) // which says what it does not understand
		return
	}
	if !r.trainers.enter() {
		_ = in.Reject(errClosing)
		return
	}
	defer r.trainers.leave()
	late := time.NewTimer(openWithin)
	defer late.Stop()
	select {
	case <-r.open:
	case <-late.C:
	case <-ctx.Done():
	case <-r.closing.Done():
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.closing, cancel)()
	select {
	case <-r.open:
		g.Server.Handle(ctx, in)
	default:
		_ = in.Reject(&psmsg.Moved{Group: hello.Group, Server: r.cfg.Replicated.Number, Epoch: hello.Epoch}) // it comes again
	}
}

// doors counts who is inside, until it is closed and they are gone.
type doors struct {
	mu     sync.Mutex
	inside sync.WaitGroup
	closed bool
}

func (d *doors) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.inside.Add(1)
	return true
}

func (d *doors) leave() { d.inside.Done() }

// wait lets nobody in any more, and returns when all have left.
func (d *doors) wait() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.inside.Wait()
}
