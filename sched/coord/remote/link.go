package remote

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/sched/coord"
)

// maxListBytes bounds what a list may bring.
const maxListBytes = 512 << 20

// link is one connection of a client, from dial to break.
type link struct {
	conn net.Conn
	done chan struct{} // closed when both goroutines ended
	dead chan struct{} // closed by fail

	write sync.Mutex // one frame at a time

	mu      sync.Mutex
	err     error // why it is dead
	calls   map[uint64]*call
	watches map[uint64]*watcher
}

// call is a request under way. The reader fills res and closes ready.
type call struct {
	res   response
	bytes int
	err   error
	ready chan struct{}
}

func newLink(conn net.Conn) *link {
	l := &link{conn: conn, done: make(chan struct{}), dead: make(chan struct{}), calls: map[uint64]*call{}, watches: map[uint64]*watcher{}}
	var both sync.WaitGroup
	both.Add(2)
	go func() { defer both.Done(); l.guarded(l.read) }()
	go func() { defer both.Done(); l.guarded(l.ping) }()
	go func() { both.Wait(); close(l.done) }()
	return l
}

// guarded ends the link, and not the process, where f panics: the process may be a
// trainer that only links psrt.
func (l *link) guarded(f func()) {
	rdma.Guarded(func(v any) {
		l.fail(fmt.Errorf("%w: a mistake in psrt, please report it: %v\n%s", coord.ErrUnavailable, v, debug.Stack()))
	}, f)()
}

func (l *link) alive() bool {
	select {
	case <-l.dead:
		return false
	default:
		return true
	}
}

// fail ends the link once: everything under way ends with err.
func (l *link) fail(err error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = err
	close(l.dead)
	calls, watches := l.calls, l.watches
	l.calls, l.watches = nil, nil
	l.mu.Unlock()
	l.conn.Close()
	for _, c := range calls {
		c.err = err
		close(c.ready)
	}
	for _, w := range watches {
		w.end(err)
	}
}

// read hands answers and events out until the link ends. The server answers
// pings, so a silent one is gone.
func (l *link) read() {
	r := bufio.NewReader(l.conn)
	var buf []byte
	for {
		if err := l.conn.SetReadDeadline(time.Now().Add(SilentFor)); err != nil {
			l.fail(fmt.Errorf("%w: %w", coord.ErrUnavailable, err))
			return
		}
		var res response
		if err := decode(r, &buf, &res); err != nil {
			l.fail(fmt.Errorf("%w: %w", coord.ErrUnavailable, err))
			return
		}
		if res.Watch {
			l.news(&res)
		} else {
			l.answer(&res)
		}
	}
}

func (l *link) answer(res *response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[res.ID]
	if c == nil { // a ping, or a caller that gave up
		return
	}
	for _, kv := range res.KVs {
		c.bytes += len(kv.Value) + len(kv.Key)
	}
	if c.bytes > maxListBytes {
		c.err = fmt.Errorf("%w: a list of more than %d bytes; ask for a longer prefix", coord.ErrTooLarge, maxListBytes)
	} else {
		res.KVs = append(c.res.KVs, res.KVs...)
		c.res = *res
		if res.More {
			return
		}
		c.err = res.err()
	}
	delete(l.calls, res.ID)
	close(c.ready)
}

func (l *link) news(res *response) {
	l.mu.Lock()
	w := l.watches[res.ID]
	l.mu.Unlock()
	if w == nil { // ended on this side
		return
	}
	for _, e := range res.Events {
		if !w.offer(e) {
			l.forget(w)
			w.end(coord.ErrLagging)
			// Not from here: a server that waits for us to read would make
			// this wait for it.
			go l.guarded(func() { l.send(&request{ID: w.id, Op: opUnwatch}) })
			return
		}
	}
	if res.Ended {
		err := res.err()
		if err == nil {
			err = coord.ErrClosed
		}
		l.forget(w)
		w.end(err)
	}
}

// ping keeps the server from believing this client gone.
func (l *link) ping() {
	t := time.NewTicker(PingEvery)
	defer t.Stop()
	for {
		select {
		case <-l.dead:
			return
		case <-t.C:
			l.send(&request{Op: opPing})
		}
	}
}

// send writes a frame. A failure ends the link.
func (l *link) send(req *request) error {
	frame, err := encode(req)
	if err != nil {
		return err
	}
	l.write.Lock()
	defer l.write.Unlock()
	if err = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err == nil {
		_, err = l.conn.Write(frame)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
		l.fail(err)
	}
	return err
}

// call sends req and waits for its answer, ctx or the end of the link.
func (l *link) call(ctx context.Context, req *request) (response, error) {
	c := &call{ready: make(chan struct{})}
	l.mu.Lock()
	switch {
	case l.err != nil:
		l.mu.Unlock()
		return response{}, l.err
	case len(l.calls) >= MaxCalls:
		l.mu.Unlock()
		return response{}, fmt.Errorf("%w: %d calls are under way, the most there may be", coord.ErrTooLarge, MaxCalls)
	}
	l.calls[req.ID] = c
	l.mu.Unlock()
	err := l.send(req)
	if err == nil {
		select {
		case <-c.ready:
			return c.res, c.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	l.mu.Lock()
	delete(l.calls, req.ID)
	l.mu.Unlock()
	return response{}, err
}

// watch makes room for the events of a watch that is about to be asked for.
func (l *link) watch(w *watcher) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.watches[w.id] = w
	return nil
}

func (l *link) forget(w *watcher) (known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known = l.watches[w.id]
	delete(l.watches, w.id)
	return known
}

// watcher is a coord.Watcher of a link.
type watcher struct {
	l  *link
	id uint64

	mu     sync.Mutex // events is sent to and closed under it
	events chan coord.Event
	ended  bool
	err    error
	stop   func() bool // of the context's hook
}

// Events implements coord.Watcher.
func (w *watcher) Events() <-chan coord.Event { return w.events }

// Err implements coord.Watcher.
func (w *watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close implements coord.Watcher.
func (w *watcher) Close() { w.finish(coord.ErrClosed) }

// offer queues an event; false if there is no room.
func (w *watcher) offer(e coord.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return true
	}
	select {
	case w.events <- e:
		return true
	default:
		return false
	}
}

func (w *watcher) setStop(stop func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		stop()
	} else {
		w.stop = stop
	}
}

// end closes the queue, once.
func (w *watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.ended, w.err = true, err
	if w.stop != nil {
		w.stop()
	}
	close(w.events)
}

// finish ends the watch on both sides.
func (w *watcher) finish(err error) {
	if w.l.forget(w) {
		w.end(err)
		// A link that cannot carry this is dead, and the watch with it.
		_ = w.l.send(&request{ID: w.id, Op: opUnwatch})
	}
}
