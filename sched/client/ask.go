package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/psmsg"
)

const (
	// listeners is how many servers are being asked at a time, all the time.
	listeners = 2
	// askFor is how long a server may keep a question; askGrace how much later its
	// answer may come before another is asked.
	askFor   = time.Second
	askGrace = time.Second
	// A server that does not wait is asked no more often than this.
	askEvery = 50 * time.Millisecond
	// Between two servers that do not answer, doubling.
	askPause     = 10 * time.Millisecond
	askLastPause = 500 * time.Millisecond
)

// run asks until ctx ends.
func (r *resolver) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for range listeners {
		all.Go(rdma.Guarded(r.host.OnPanic(), func() { r.listen(ctx) }))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hurry:
			r.once(ctx)
		}
	}
}

// refresh has one more server asked, soon. It does not wait.
func (r *resolver) refresh() {
	select {
	case r.hurry <- struct{}{}:
	default:
	}
}

// listen asks one server as long as it answers, then another.
func (r *resolver) listen(ctx context.Context) {
	for pause := askPause; ctx.Err() == nil; {
		addr := r.pick()
		if addr != "" {
			good := r.follow(ctx, addr)
			r.release(addr)
			if good {
				pause = askPause
				continue
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, askLastPause)
	}
}

// follow asks one server until it fails; good: it had answered.
func (r *resolver) follow(ctx context.Context, addr string) (good bool) {
	conn, err := r.visit(ctx, addr)
	if err != nil {
		r.note(addr, "", err)
		return false
	}
	defer conn.Close()
	for ctx.Err() == nil {
		start := time.Now()
		newer, err := r.ask(ctx, addr, conn, askFor)
		if err != nil {
			r.note(addr, "", err)
			return good
		}
		good = true
		if left := askEvery - time.Since(start); !newer && left > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(left):
			}
		}
	}
	return good
}

// once asks the next server for what it has now.
func (r *resolver) once(ctx context.Context) {
	addr := r.next()
	if addr == "" {
		return
	}
	defer r.release(addr)
	conn, err := r.visit(ctx, addr)
	if err == nil {
		_, err = r.ask(ctx, addr, conn, 0)
		conn.Close()
	}
	if err != nil {
		r.note(addr, "", err)
	}
}

// visit connects to a server to ask it. What takes longer than an answer may is
// given up: there are others.
func (r *resolver) visit(ctx context.Context, addr string) (*dial.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor+askGrace)
	defer cancel()
	hello, _ := json.Marshal(psmsg.Hello{Worker: psmsg.Visitor}.Says())
	conn, _, err := r.host.Dial(ctx, addr, hello, 0, func(int, rdma.Domain) (rdma.EndpointConfig, error) {
		return rdma.EndpointConfig{}, errors.New("client: no endpoint was asked for")
	})
	return conn, err
}

// ask asks for a map newer than the newest here; newer: there was one.
func (r *resolver) ask(ctx context.Context, addr string, conn *dial.Conn, wait time.Duration) (newer bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait+askGrace)
	defer cancel()
	r.mu.Lock()
	have := r.newest.Epoch
	r.mu.Unlock()
	var rep psmsg.MapReply
	if err := conn.Call(ctx, psmsg.MethodMap, psmsg.MapRequest{After: have, WaitMicros: wait.Microseconds()}, &rep); err != nil {
		return false, err
	}
	said := "it has no map yet"
	if rep.Chains != nil {
		said = fmt.Sprintf("it has epoch %d", rep.Chains.Epoch)
		newer = rep.Chains.Epoch > have
		err = r.take(rep.Chains)
	}
	r.note(addr, said, err)
	return newer, err
}

// pick is the server to be asked all the time: one that is not being asked, of the
// newest map where there is one, that has not failed or the longest ago. The first
// choice among equals is by chance: a map's order is.
func (r *resolver) pick() (best string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	better := func(a, b *source) bool {
		if fresh := a.epoch == r.newest.Epoch; fresh != (b.epoch == r.newest.Epoch) {
			return fresh && (a.failed.IsZero() || !b.failed.IsZero())
		}
		return a.failed.Before(b.failed)
	}
	for addr, s := range r.known {
		if !s.busy && (best == "" || better(s, r.known[best])) {
			best = addr
		}
	}
	if best != "" {
		r.known[best].busy = true
	}
	return best
}

// next is the server that was asked longest ago.
func (r *resolver) next() (best string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for addr, s := range r.known {
		if !s.busy && (best == "" || s.at.Before(r.known[best].at)) {
			best = addr
		}
	}
	if best != "" {
		r.known[best].busy = true
	}
	return best
}

func (r *resolver) release(addr string) {
	r.mu.Lock()
	if s := r.known[addr]; s != nil {
		s.busy = false
	}
	r.mu.Unlock()
}
