package fault

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"psrt/rdma"
)

type endpoint struct {
	rdma.Endpoint
	q      *queue
	script *Script
	peer   string
	depth  int
	timer  *time.Timer // calls resume when a delay is over

	mu       sync.Mutex
	closed   bool
	broken   error
	signaled int  // posted to the wrapped endpoint, completion not polled
	waits    bool // rule has caught the next request, which found no room
	rule     Rule
	fails    *failure  // its stand-in is the last request posted
	held     []rdma.WR // behind a delay or a failure, at most depth
	until    time.Time // held waits for it, unless fails is set
}

// failure is a request caught by Fail or Lose.
type failure struct {
	id     uint64
	op     rdma.Op
	status rdma.Status
}

func (e *endpoint) Post(wrs []rdma.WR) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(); err != nil {
		return 0, err
	}
	first := 0 // not yet given to the wrapped endpoint
	for i := range wrs {
		if e.fails == nil && len(e.held) == 0 {
			r, caught := e.match(wrs[i].Op)
			if !caught {
				continue
			}
			batch := wrs[first:i]
			if r.Delay == 0 {
				batch = append(slices.Clone(batch), standIn(wrs[i], r))
			}
			n, err := e.pass(batch)
			first += n
			if n < len(batch) || err != nil {
				e.rule, e.waits = r, true
				return first, err
			}
			if r.Delay == 0 {
				e.fails = &failure{wrs[i].ID, wrs[i].Op, max(r.Fail, r.Lose)} // one of them is 0
				continue
			}
			e.until = time.Now().Add(r.Delay)
			e.timer.Reset(r.Delay)
		}
		if len(e.held) == e.depth {
			return i, nil
		}
		e.held = append(e.held, keep(wrs[i]))
		first = i + 1
	}
	n, err := e.pass(wrs[first:])
	return first + n, err
}

// match asks the script once per request, however often it is posted.
func (e *endpoint) match(op rdma.Op) (Rule, bool) {
	if e.waits {
		e.waits = false
		return e.rule, true
	}
	return e.script.match(op, e.peer)
}

// keep copies what the caller may change after Post.
func keep(wr rdma.WR) rdma.WR {
	if wr.Inline {
		wr.Local = bytes.Clone(wr.Local)
	}
	return wr
}

// standIn is what travels in place of a request that will fail.
func standIn(wr rdma.WR, r Rule) rdma.WR {
	if r.Lose == rdma.StatusOK {
		return rdma.WR{ID: wr.ID, Op: rdma.OpWrite, Signaled: true}
	}
	wr.Signaled = true
	return wr
}

func (e *endpoint) pass(wrs []rdma.WR) (int, error) {
	if len(wrs) == 0 {
		return 0, nil
	}
	n, err := e.Endpoint.Post(wrs)
	for i := range wrs[:n] {
		if wrs[i].Signaled {
			e.signaled++
		}
	}
	return n, err
}

func (e *endpoint) PostRecv(rs []rdma.Recv) (int, error) {
	e.mu.Lock()
	err := e.usable()
	e.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return e.Endpoint.PostRecv(rs)
}

func (e *endpoint) usable() error {
	if e.closed {
		return fmt.Errorf("fault: post to %s: %w", e.peer, rdma.ErrClosed)
	}
	return e.broken
}

// resume posts what a delay held back.
func (e *endpoint) resume() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.fails != nil || len(e.held) == 0 || time.Now().Before(e.until) {
		return
	}
	n, err := e.pass(e.held)
	e.held = e.held[n:]
	if err != nil {
		e.refuse(err)
		return
	}
	if len(e.held) > 0 {
		e.q.mu.Lock()
		e.q.full = append(e.q.full, e)
		e.q.own.Store(true)
		e.q.mu.Unlock()
	}
}

// refuse completes held requests that Post would have refused at once.
func (e *endpoint) refuse(err error) {
	status := rdma.StatusLocalProt
	var typed *rdma.Error
	if errors.As(err, &typed) {
		status = rdma.StatusFlushed
	}
	e.end(e.held[0], status, err)
	e.held = e.held[1:]
	e.flush()
}
