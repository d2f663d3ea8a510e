package heter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
)

// Options of a rank's end of all its links; both times are required.
type Options struct {
	Node     int           // NUMA node of the memory, -1 any
	PeerKind string        // what the other ends are called in errors
	Timeout  time.Duration // of one request
	Silence  time.Duration // after which a peer that says nothing is taken for dead
}

// Hub is one rank's end of all its links.
type Hub struct {
	host  *dial.Host
	opt   Options
	mux   *dial.Mux
	links []*Link
	got   []Arrival
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup

	listener *dial.Listener
	mu       sync.Mutex
	expected map[int]Shape // by number: who has not come yet
	came     chan *Link

	flushes []chan struct{} // under mu

	report   json.RawMessage
	finished chan struct{}
	byes     atomic.Int64
}

// Arrival is a message that has come. Floats are lent until the place is used again.
type Arrival struct {
	Link       *Link
	Slot, Leaf int
	Head       Head
	Floats     []float32
}

// LostError is a peer that is gone.
type LostError struct {
	Peer  string
	Cause error
}

func (e *LostError) Error() string { return fmt.Sprintf("heter: %s is lost: %v", e.Peer, e.Cause) }
func (e *LostError) Unwrap() error { return e.Cause }

// New makes a hub with room for links that take depth together (Shape.Depth).
func New(host *dial.Host, depth int, opt Options) *Hub {
	h := &Hub{host: host, opt: opt, mux: dial.NewMux(depth), finished: make(chan struct{})}
	h.mux.Guard(host.OnPanic())
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// hello is what the lower rank says.
type hello struct {
	Version int   `json:"version"`
	From    int   `json:"from"`
	Shape   Shape `json:"shape"`
}

// Control calls.
const (
	methodBegin = "heter begin" // where each may write
	methodAlive = "heter alive"
	methodFlush = "heter flush"
	methodBye   = "heter bye"
)

// Dial links this rank, number from among the lower ones, to an upper one.
func (h *Hub) Dial(ctx context.Context, addr string, from, number int, s Shape) (*Link, error) {
	l, err := h.newLink(number, s)
	if err != nil {
		return nil, err
	}
	l.index = len(h.links)
	h.links = append(h.links, l)
	word, err := json.Marshal(hello{Version: version, From: from, Shape: s})
	if err != nil {
		return nil, err
	}
	conn, _, err := h.host.Dial(ctx, addr, word, 1, func(_ int, d rdma.Domain) (rdma.EndpointConfig, error) { return l.attach(d) })
	if err != nil {
		return nil, fmt.Errorf("heter: %s: %w", l.Peer(), err)
	}
	if err := l.connected(conn); err != nil {
		return nil, err
	}
	var theirs rdma.RemoteRange
	if err := conn.Call(ctx, methodBegin, l.region.Remote(), &theirs); err != nil {
		return nil, fmt.Errorf("heter: %s: %w", l.Peer(), err)
	}
	if err := l.meet(theirs); err != nil {
		return nil, err
	}
	h.tasks.Go(rdma.Guarded(h.host.OnPanic(), func() { h.ask(l) }))
	return l, nil
}

// ask gives a peer up that does not answer.
func (h *Hub) ask(l *Link) {
	t := time.NewTicker(h.opt.Silence / 4)
	defer t.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-l.conn.Done():
			h.mux.Wake()
			return
		case <-t.C:
		}
		ctx, cancel := context.WithTimeout(h.ctx, h.opt.Silence)
		err := l.conn.Call(ctx, methodAlive, nil, nil)
		cancel()
		if err != nil && h.ctx.Err() == nil {
			err = fmt.Errorf("it has said nothing for %v: %w", h.opt.Silence, err)
			l.gone.Store(&err)
			h.mux.Wake()
			return
		}
	}
}

// Listen waits for lower ranks to dial; expected are their links, by number.
func (h *Hub) Listen(addr string, expected map[int]Shape) (bound string, err error) {
	if h.listener, err = h.host.Listen(addr); err != nil {
		return "", fmt.Errorf("heter: %w", err)
	}
	h.expected, h.came = expected, make(chan *Link, len(expected))
	h.tasks.Go(rdma.Guarded(h.host.OnPanic(), h.accept))
	return h.listener.Addr(), nil
}

func (h *Hub) accept() {
	for {
		in, err := h.listener.Accept(h.ctx)
		if err != nil {
			return
		}
		l, err := h.expect(in)
		if err != nil {
			_ = in.Reject(err) // it says so itself
			continue
		}
		h.tasks.Go(rdma.Guarded(h.host.OnPanic(), func() { h.admit(in, l) }))
	}
}

// expect finds out which link a peer is for.
func (h *Hub) expect(in *dial.Incoming) (*Link, error) {
	var word hello
	if err := json.Unmarshal(in.Hello, &word); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if word.Version != version {
		return nil, fmt.Errorf("heter: version %d, this program speaks %d: run the same psrt everywhere", word.Version, version)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.expected[word.From]
	if !ok || s != word.Shape {
		return nil, fmt.Errorf("heter: %s %d with leaves %d to %d is not expected here", h.opt.PeerKind, word.From, word.Shape.First, word.Shape.Last)
	}
	l, err := h.newLink(word.From, s)
	if err != nil {
		return nil, err
	}
	delete(h.expected, word.From)
	l.index = len(h.links)
	h.links = append(h.links, l)
	return l, nil
}

// admit finishes a connection and answers its calls until it ends.
func (h *Hub) admit(in *dial.Incoming, l *Link) {
	conn, err := in.Finish(func(_ int, d rdma.Domain) rdma.EndpointConfig {
		cfg, err := l.attach(d)
		if err != nil {
			cfg.Queue = nil // which NewEndpoint refuses
		}
		return cfg
	}, nil)
	if err == nil {
		err = l.connected(conn)
	}
	if err != nil {
		l.gone.Store(&err)
		h.came <- l
		return
	}
	_ = conn.Serve(h.ctx, func(ctx context.Context, method string, body json.RawMessage) (any, error) { // its end is Done
		return h.answer(ctx, l, method, body)
	})
	h.mux.Wake()
}

// answer answers a lower rank's call.
func (h *Hub) answer(ctx context.Context, l *Link, method string, body json.RawMessage) (any, error) {
	switch method {
	case methodBegin:
		l.mu.Lock()
		defer l.mu.Unlock()
		select {
		case <-l.ready:
			return nil, fmt.Errorf("%w: it begins twice", ErrProtocol)
		default:
		}
		var theirs rdma.RemoteRange
		if err := json.Unmarshal(body, &theirs); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		if err := l.meet(theirs); err != nil {
			return nil, err
		}
		h.came <- l
		return l.region.Remote(), nil
	case methodAlive:
		return nil, nil
	case methodFlush:
		done := make(chan struct{})
		h.mu.Lock()
		h.flushes = append(h.flushes, done)
		h.mu.Unlock()
		h.mux.Wake()
		select {
		case <-done:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	case methodBye:
		if !l.bye.Swap(true) {
			h.byes.Add(1)
		}
		h.mux.Wake()
		select {
		case <-h.finished:
			return h.report, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("%w: call %q", ErrProtocol, method)
}

// Ready returns when all that are expected have come.
func (h *Hub) Ready(ctx context.Context) error {
	for range cap(h.came) {
		select {
		case l := <-h.came:
			if cause := l.gone.Load(); cause != nil {
				return &LostError{Peer: l.Peer(), Cause: *cause}
			}
		case <-ctx.Done():
			h.mu.Lock()
			defer h.mu.Unlock()
			for n := range h.expected {
				return fmt.Errorf("heter: %s %d has not come: %w", h.opt.PeerKind, n, context.Cause(ctx))
			}
			return context.Cause(ctx)
		}
	}
	return nil
}

// Poll gives what has come; it is valid until the next Poll.
func (h *Hub) Poll() ([]Arrival, error) {
	h.got = h.got[:0]
	var gone *Link
	for _, l := range h.links { // before the queue is looked at: what it said comes first
		if l.lost() != nil && gone == nil {
			gone = l
		}
	}
	var cs [64]rdma.Completion
	for n := len(cs); n == len(cs); {
		n = h.mux.Poll(cs[:])
		for i := range cs[:n] {
			if err := h.complete(&cs[i]); err != nil {
				return h.got, err
			}
		}
	}
	for _, l := range h.links {
		if err := l.post(); err != nil {
			return h.got, err
		}
	}
	if gone != nil && len(h.got) == 0 {
		return nil, gone.fail(gone.lost())
	}
	return h.got, nil
}

// lost says why a link's peer is gone, nil where it is there or has said Bye.
func (l *Link) lost() error {
	if l.bye.Load() || l.conn == nil {
		return nil
	}
	if cause := l.gone.Load(); cause != nil {
		return *cause
	}
	select {
	case <-l.conn.Done():
		return l.conn.Err()
	default:
		return nil
	}
}

func (h *Hub) complete(c *rdma.Completion) error {
	if c.ID >= uint64(len(h.links)) {
		return fmt.Errorf("heter: a completion of link %d of %d: please report this", c.ID, len(h.links))
	}
	l := h.links[c.ID]
	switch {
	case c.Status != rdma.StatusOK && l.bye.Load():
		return nil
	case c.Status != rdma.StatusOK:
		err := c.Err
		if err == nil {
			err = errors.New(c.Status.String())
		}
		return l.fail(err)
	case c.Op != rdma.OpRecvImm:
		return nil
	}
	a, err := l.arrive(c)
	if err != nil {
		return l.fail(err)
	}
	h.got = append(h.got, a)
	return nil
}

// Wait returns when Poll may have something, or at the deadline.
func (h *Hub) Wait(deadline time.Time) error {
	if err := h.mux.Wait(deadline); err != nil && !errors.Is(err, rdma.ErrDeadline) {
		return err
	}
	return nil
}

// Wake makes a Wait that is running or the next one return. Any goroutine.
func (h *Hub) Wake() { h.mux.Wake() }

// Links are in no particular order.
func (h *Hub) Links() []*Link { return h.links }

// Bytes is what was sent and received.
func (h *Hub) Bytes() (sent, received uint64) {
	for _, l := range h.links {
		sent += l.sent.Load()
		received += l.received.Load()
	}
	return sent, received
}

// Over says whether all lower ranks have said Bye.
func (h *Hub) Over() bool { return int(h.byes.Load()) == cap(h.came) }

// Finish answers the Byes.
func (h *Hub) Finish(report any) error {
	b, err := json.Marshal(report)
	if err != nil {
		return err
	}
	h.report = b
	close(h.finished)
	return nil
}

// Flush returns when all upper ranks have done what they do with the leaves that they
// have answered.
func (h *Hub) Flush(ctx context.Context) error {
	return h.callAll(ctx, methodFlush, func(*Link, json.RawMessage) {})
}

// Flushes are the calls of Flush that wait, each until its channel is closed.
func (h *Hub) Flushes() []chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.flushes
	h.flushes = nil
	return asked
}

// Bye tells all upper ranks that nothing comes from here any more, and gets their
// reports, by their numbers.
func (h *Hub) Bye(ctx context.Context) (map[int]json.RawMessage, error) {
	said := map[int]json.RawMessage{}
	var mu sync.Mutex
	err := h.callAll(ctx, methodBye, func(l *Link, report json.RawMessage) {
		l.bye.Store(true)
		mu.Lock()
		defer mu.Unlock()
		said[l.Number] = report
	})
	return said, err
}

// callAll calls all upper ranks at once, and got as each answers.
func (h *Hub) callAll(ctx context.Context, method string, got func(l *Link, answer json.RawMessage)) error {
	var wg sync.WaitGroup
	errs := make([]error, len(h.links))
	for i, l := range h.links {
		wg.Go(rdma.Guarded(h.host.OnPanic(), func() {
			var answer json.RawMessage
			if err := l.conn.Call(ctx, method, nil, &answer); err != nil {
				errs[i] = &LostError{Peer: l.Peer(), Cause: err}
				return
			}
			got(l, answer)
		}))
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close ends all links.
func (h *Hub) Close() error {
	h.stop()
	var errs []error
	if h.listener != nil {
		errs = append(errs, h.listener.Close())
	}
	h.mu.Lock()
	links := h.links
	h.mu.Unlock()
	for _, l := range links {
		if l.conn != nil {
			_ = l.conn.Close() // the peer is gone, or knows
		}
	}
	h.tasks.Wait()
	for _, l := range h.links {
		l.close()
	}
	return errors.Join(append(errs, h.mux.Close())...)
}

// Farewell waits until the lower ranks have taken the report and closed their ends.
func (h *Hub) Farewell(within time.Duration) error {
	late := time.After(within)
	for _, l := range h.links {
		select {
		case <-l.conn.Done():
		case <-late:
			return &LostError{Peer: l.Peer(), Cause: fmt.Errorf("it has not left within %v", within)}
		}
	}
	return nil
}
