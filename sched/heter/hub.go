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
	Again    *Again        // nil: a peer's death is the end of the link
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

	from     int // this rank's number, of a lower one
	listener *dial.Listener
	came     chan *Link // each once
	closing  []*wire    // dropped, as of the last Poll

	mu      sync.Mutex // under those of links
	nextID  uint64
	wires   map[uint64]*wire
	retired []*wire // dropped since
	flushes []Flushing

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

	wire uint64 // by which it came
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
	if opt.Again != nil {
		depth *= 2 // a connection ends after the next has begun
	}
	h := &Hub{host: host, opt: opt, mux: dial.NewMux(depth), wires: map[uint64]*wire{}, finished: make(chan struct{})}
	h.mux.Guard(host.OnPanic())
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// hello is what the lower rank says.
type hello struct {
	Version    int    `json:"version"`
	From       int    `json:"from"`
	Shape      Shape  `json:"shape"`
	Generation int    `json:"generation,omitempty"`
	First      uint64 `json:"first,omitempty"` // step
}

// begun is what the upper rank answers: where its memory is, and the oldest step that it
// lacks.
type begun struct {
	Range rdma.RemoteRange `json:"range"`
	From  uint64           `json:"from"`
}

// Control calls.
const (
	methodBegin = "heter begin" // where each may write
	methodAlive = "heter alive"
	methodFlush = "heter flush"
	methodBye   = "heter bye"
)

// Dial links this rank, number from among the lower ones, to an upper one. Where links are
// made again it waits for one that can be reached, at the address that Again.Where tells.
func (h *Hub) Dial(ctx context.Context, addr string, from, number int, s Shape) (*Link, error) {
	l, err := h.newLink(number, s, true)
	if err != nil {
		return nil, err
	}
	h.from = from
	h.links = append(h.links, l)
	w, err := h.connect(ctx, addr, l)
	if err != nil && h.opt.Again != nil && ctx.Err() == nil {
		w, err = h.redial(l, err)
	}
	if err != nil {
		return nil, fmt.Errorf("heter: %s: %w", l.Peer(), err)
	}
	h.tasks.Go(rdma.Guarded(h.host.OnPanic(), func() { h.keep(l, w) }))
	return l, nil
}

// connect makes a connection of a link.
func (h *Hub) connect(ctx context.Context, addr string, l *Link) (*wire, error) {
	w, err := h.newWire(l)
	if err != nil {
		return nil, err
	}
	from, err := h.begin(ctx, addr, w)
	if err != nil {
		h.mu.Lock()
		delete(h.wires, w.id)
		h.mu.Unlock()
		w.close()
		return nil, err
	}
	l.install(w, from)
	h.mux.Wake()
	return w, nil
}

func (h *Hub) begin(ctx context.Context, addr string, w *wire) (from uint64, err error) {
	word := hello{Version: version, From: h.from, Shape: w.link.Shape}
	if a := h.opt.Again; a != nil {
		word.Generation, word.First = a.Generation, a.First
	}
	text, err := json.Marshal(word)
	if err != nil {
		return 0, err
	}
	conn, _, err := h.host.Dial(ctx, addr, text, 1, func(_ int, d rdma.Domain) (rdma.EndpointConfig, error) { return w.attach(d) })
	if err != nil {
		return 0, err
	}
	if err := w.connected(conn); err != nil {
		return 0, err
	}
	var theirs begun
	if err := conn.Call(ctx, methodBegin, w.region.Remote(), &theirs); err != nil {
		return 0, err
	}
	return theirs.From, w.meet(theirs.Range)
}

// keep gives a peer up that does not answer, or waits for another in its place.
func (h *Hub) keep(l *Link, w *wire) {
	for {
		cause := h.watch(w)
		if cause == nil || l.bye.Load() {
			return
		}
		if h.opt.Again == nil {
			w.gone.Store(&cause)
			h.mux.Wake()
			return
		}
		l.drop(w, cause)
		var err error
		if w, err = h.redial(l, cause); err != nil {
			if h.ctx.Err() == nil {
				_ = l.fail(err) // which who sends or polls is told
				h.mux.Wake()
			}
			return
		}
	}
}

// watch says why a wire's peer is gone, when it is; nil: this hub is closed.
func (h *Hub) watch(w *wire) error {
	t := time.NewTicker(h.opt.Silence / 4)
	defer t.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return nil
		case <-w.conn.Done():
			return w.conn.Err()
		case <-t.C:
		}
		ctx, cancel := context.WithTimeout(h.ctx, h.opt.Silence)
		err := w.conn.Call(ctx, methodAlive, nil, nil)
		cancel()
		if err != nil && h.ctx.Err() == nil {
			return fmt.Errorf("it has said nothing for %v: %w", h.opt.Silence, err)
		}
	}
}

// Listen waits for lower ranks to dial; expected are their links, by number.
func (h *Hub) Listen(addr string, expected map[int]Shape) (bound string, err error) {
	if h.listener, err = h.host.Listen(addr); err != nil {
		return "", fmt.Errorf("heter: %w", err)
	}
	for number, s := range expected {
		l, err := h.newLink(number, s, false)
		if err != nil {
			return "", err
		}
		h.links = append(h.links, l)
	}
	h.came = make(chan *Link, len(expected))
	h.tasks.Go(rdma.Guarded(h.host.OnPanic(), h.accept))
	return h.listener.Addr(), nil
}

func (h *Hub) accept() {
	for {
		in, err := h.listener.Accept(h.ctx)
		if err != nil {
			return
		}
		w, err := h.expect(in)
		if err != nil {
			_ = in.Reject(err) // it says so itself
			continue
		}
		h.tasks.Go(rdma.Guarded(h.host.OnPanic(), func() { h.admit(in, w) }))
	}
}

// expect finds out which link a peer is for.
func (h *Hub) expect(in *dial.Incoming) (*wire, error) {
	var word hello
	if err := json.Unmarshal(in.Hello, &word); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if word.Version != version {
		return nil, fmt.Errorf("heter: version %d, this program speaks %d: run the same psrt everywhere", word.Version, version)
	}
	for _, l := range h.links {
		if l.Number == word.From && l.Shape == word.Shape {
			if err := l.claim(&word); err != nil {
				return nil, err
			}
			return h.newWire(l)
		}
	}
	return nil, fmt.Errorf("heter: %s %d with leaves %d to %d is not expected here", h.opt.PeerKind, word.From, word.Shape.First, word.Shape.Last)
}

// claim lets a peer have the link: the first one, or where links are made again the newest
// process.
func (l *Link) claim(word *hello) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.again == nil && l.expected:
		return fmt.Errorf("heter: %s is here already", l.Peer())
	case word.Generation < l.generation:
		return fmt.Errorf("heter: another process has the number of %s", l.Peer())
	}
	l.expected, l.generation, l.first = true, word.Generation, word.First
	return nil
}

// admit finishes a connection and answers its calls until it ends.
func (h *Hub) admit(in *dial.Incoming, w *wire) {
	l := w.link
	conn, err := in.Finish(func(_ int, d rdma.Domain) rdma.EndpointConfig {
		cfg, err := w.attach(d)
		if err != nil {
			cfg.Queue = nil // which NewEndpoint refuses
		}
		return cfg
	}, nil)
	if err == nil {
		err = w.connected(conn)
	}
	if err == nil {
		_ = conn.Serve(h.ctx, func(ctx context.Context, method string, body json.RawMessage) (any, error) { // its end is Done
			return h.answer(ctx, w, method, body)
		})
		err = conn.Err()
	}
	if l.again == nil {
		l.mu.Lock()
		if l.wire == nil {
			l.cause = err
		}
		first := l.wire == nil
		l.mu.Unlock()
		if first {
			h.came <- l
		}
		h.mux.Wake()
		return
	}
	if l.drop(w, err); !w.met.Load() {
		h.mu.Lock()
		delete(h.wires, w.id)
		h.mu.Unlock()
		w.close()
	}
}

// answer answers a lower rank's call.
func (h *Hub) answer(ctx context.Context, w *wire, method string, body json.RawMessage) (any, error) {
	switch method {
	case methodBegin:
		if w.met.Load() {
			return nil, fmt.Errorf("%w: it begins twice", ErrProtocol)
		}
		var theirs rdma.RemoteRange
		if err := json.Unmarshal(body, &theirs); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		if err := w.meet(theirs); err != nil {
			return nil, err
		}
		if w.link.install(w, 0) {
			h.came <- w.link
		}
		h.mux.Wake()
		reply := begun{Range: w.region.Remote()}
		if h.opt.Again != nil {
			reply.From = h.opt.Again.From[w.link.Number]
		}
		return reply, nil
	case methodAlive:
		return nil, nil
	case methodFlush:
		f := Flushing{Link: w.link, Done: make(chan struct{})}
		if len(body) > 0 { // a program of before says no step
			if err := json.Unmarshal(body, &f.Step); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
			}
		}
		h.mu.Lock()
		h.flushes = append(h.flushes, f)
		h.mu.Unlock()
		h.mux.Wake()
		select {
		case <-f.Done:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	case methodBye:
		if !w.link.bye.Swap(true) {
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
			if _, cause := l.current(); cause != nil && h.opt.Again == nil {
				return &LostError{Peer: l.Peer(), Cause: cause}
			}
		case <-ctx.Done():
			for _, l := range h.links {
				l.mu.Lock()
				here := l.claimed
				l.mu.Unlock()
				if !here {
					return fmt.Errorf("heter: %s %d has not come: %w", h.opt.PeerKind, l.Number, context.Cause(ctx))
				}
			}
			return context.Cause(ctx)
		}
	}
	return nil
}

// Poll gives what has come; it is valid until the next Poll.
func (h *Hub) Poll() ([]Arrival, error) {
	h.got = h.got[:0]
	h.sweep()
	var gone *Link
	for _, l := range h.links { // before the queue is looked at: what it said comes first
		if gone == nil && l.lost() != nil {
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
		if cause := gone.lost(); cause != nil { // else it is back
			return nil, gone.fail(cause)
		}
	}
	return h.got, nil
}

func (h *Hub) complete(c *rdma.Completion) error {
	h.mu.Lock()
	w := h.wires[c.ID]
	h.mu.Unlock()
	if w == nil {
		return nil // of a connection that was given up
	}
	l := w.link
	switch {
	case c.Status != rdma.StatusOK && l.bye.Load():
		return nil
	case c.Status != rdma.StatusOK:
		err := c.Err
		if err == nil {
			err = errors.New(c.Status.String())
		}
		return l.broken(w, err)
	case c.Op != rdma.OpRecvImm:
		return nil
	}
	a, place, err := w.arrive(c)
	if err != nil {
		return l.broken(w, err)
	}
	if l.admits(&a, place) {
		h.got = append(h.got, a)
	}
	return nil
}

// broken is the end of a wire, and of the link where there is no other.
func (l *Link) broken(w *wire, err error) error {
	if l.again == nil || errors.Is(err, ErrProtocol) {
		return l.fail(err)
	}
	l.drop(w, err)
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

// Links are in no particular order; those of an upper rank are there before anybody comes.
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
func (h *Hub) Over() bool { return int(h.byes.Load()) == len(h.links) }

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

// Flush returns when all upper ranks have done what they do with this rank's leaves of the
// steps before one, all of which they have answered.
func (h *Hub) Flush(ctx context.Context, step uint64) error {
	return h.callAll(ctx, methodFlush, step, func(*Link, json.RawMessage) {})
}

// Flushing is a call of Flush that waits until Done is closed. An upper rank that has taken
// another's place may lack leaves of its steps yet, which come again.
type Flushing struct {
	Link *Link
	Step uint64
	Done chan struct{}
}

// Flushes are those that have come since it was asked last.
func (h *Hub) Flushes() []Flushing {
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
	err := h.callAll(ctx, methodBye, nil, func(l *Link, report json.RawMessage) {
		l.bye.Store(true)
		mu.Lock()
		defer mu.Unlock()
		said[l.Number] = report
	})
	return said, err
}

// callAll calls all upper ranks at once, and got as each answers.
func (h *Hub) callAll(ctx context.Context, method string, body any, got func(l *Link, answer json.RawMessage)) error {
	var wg sync.WaitGroup
	errs := make([]error, len(h.links))
	for i, l := range h.links {
		wg.Go(rdma.Guarded(h.host.OnPanic(), func() {
			answer, err := h.call(ctx, l, method, body)
			if err != nil {
				errs[i] = &LostError{Peer: l.Peer(), Cause: err}
				return
			}
			got(l, answer)
		}))
	}
	wg.Wait()
	return errors.Join(errs...)
}

// call calls one, or who takes its place. To a Bye one that has left may have told its
// report elsewhere.
func (h *Hub) call(ctx context.Context, l *Link, method string, body any) (answer json.RawMessage, err error) {
	for {
		conn, err := l.current()
		if conn != nil {
			if err = conn.Call(ctx, method, body, &answer); err == nil {
				return answer, nil
			}
		}
		again := h.opt.Again
		if again == nil || ctx.Err() != nil || conn != nil && conn.Err() == nil {
			return nil, err
		}
		if method == methodBye {
			if report, ok, err := again.Told(ctx, l.Number); ok || err != nil {
				return report, err
			}
		}
		if lost := l.lost(); lost != nil {
			return nil, lost
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(lookAgain):
		}
	}
}

// Close ends all links.
func (h *Hub) Close() error {
	h.stop()
	var errs []error
	if h.listener != nil {
		errs = append(errs, h.listener.Close())
	}
	h.mu.Lock()
	wires := make([]*wire, 0, len(h.wires))
	for _, w := range h.wires {
		wires = append(wires, w)
	}
	h.mu.Unlock()
	for _, l := range h.links { // whose peers are gone, or know
		if conn, _ := l.current(); conn != nil {
			_ = conn.Close()
		}
	}
	h.tasks.Wait()
	for _, w := range append(append(wires, h.closing...), h.retired...) {
		w.close()
	}
	for _, l := range h.links {
		l.close()
	}
	return errors.Join(append(errs, h.mux.Close())...)
}

// Farewell waits until the lower ranks have taken the report and closed their ends.
func (h *Hub) Farewell(within time.Duration) error {
	late := time.After(within)
	for _, l := range h.links {
		conn, _ := l.current()
		if conn == nil {
			continue
		}
		select {
		case <-conn.Done():
		case <-late:
			return &LostError{Peer: l.Peer(), Cause: fmt.Errorf("it has not left within %v", within)}
		}
	}
	return nil
}
