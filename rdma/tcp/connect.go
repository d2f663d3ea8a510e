package tcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"psrt/rdma"
	"psrt/rdma/wire"
)

// link is an opened connection on its way to becoming an askLink or answerLink.
type link struct {
	conn    net.Conn
	hello   hello
	raw     []byte // hello as sent
	weAsk   bool
	timeout time.Duration // the peer's
}

// Connect joins the endpoint to the peer's. Of two sides that listen the one
// with the smaller id opens the connections.
func (ep *endpoint) Connect(peer []byte, deadline time.Time) error {
	a, err := decodeAddress(peer)
	if err != nil {
		return ep.connectError(err)
	}
	mine := ep.address()
	if a.id == mine.id {
		return ep.connectError(fmt.Errorf("an endpoint cannot be connected to itself: %w", rdma.ErrInvalid))
	}
	ep.mu.Lock()
	again := ep.connecting
	ep.connecting = true
	ep.mu.Unlock()
	if again {
		return ep.connectError(fmt.Errorf("connected before; make a new endpoint: %w", rdma.ErrInvalid))
	}
	var links []link
	switch {
	case len(mine.candidates) == 0 && len(a.candidates) == 0:
		err = fmt.Errorf("neither side listens: open one domain with Config.Listen: %w", rdma.ErrInvalid)
	case len(a.candidates) > 0 && (len(mine.candidates) == 0 || mine.id < a.id):
		links, err = ep.open(&a, mine.host == a.host, deadline)
	default:
		links, err = ep.await(&a, deadline)
	}
	if err == nil {
		err = ep.activate(links)
	}
	if err != nil {
		for _, l := range links {
			_ = l.conn.Close()
		}
		return ep.connectError(err)
	}
	return nil
}

func (ep *endpoint) connectError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", rdma.ErrDeadline, err)
	}
	return fmt.Errorf("%s: connect to %s: %w", ep.dom.cfg.name(), ep.cfg.Peer, err)
}

// open dials all links of the peer, then waits for its welcomes.
func (ep *endpoint) open(a *address, sameHost bool, deadline time.Time) ([]link, error) {
	// Close must end the waiting below.
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-ep.dead:
			cancel()
		case <-stop:
		}
	}()
	links, err := ep.dialLinks(ctx, a, sameHost, deadline)
	fail := func(err error) ([]link, error) {
		if ep.closed.Load() {
			err = rdma.ErrClosed
		}
		return links, err
	}
	if err != nil {
		return fail(err)
	}
	unblock := context.AfterFunc(ctx, func() {
		for _, l := range links {
			_ = l.conn.SetReadDeadline(time.Unix(1, 0))
		}
	})
	defer unblock()
	for i := range links {
		l := &links[i]
		w, b, err := wire.ReadFrame(l.conn, welcomeSize, deadline)
		if err != nil {
			return fail(fmt.Errorf("wait for the welcome of %s: %w; the peer's Connect must run too", l.conn.RemoteAddr(), err))
		}
		if w.Kind != kindWelcome {
			return fail(fmt.Errorf("%w: kind %d instead of a welcome", wire.ErrFrame, w.Kind))
		}
		if l.timeout, err = decodeWelcome(b, &ep.nonce, l.raw); err != nil {
			return fail(err)
		}
	}
	// The deadline was for connecting; the links live on without one.
	if !unblock() {
		return fail(context.Cause(ctx))
	}
	for _, l := range links {
		if err := l.conn.SetReadDeadline(time.Time{}); err != nil {
			return fail(fmt.Errorf("link to %s: %w", l.conn.RemoteAddr(), err))
		}
	}
	return links, nil
}

// dialLinks connects all links, and introduces each. They are dialled side by side, for
// each is two round trips with TLS, but for what the peer's gate has no room for; where the peer has several addresses the first goes
// ahead, and the others where it got through. After an error it returns those that are
// connected.
func (ep *endpoint) dialLinks(ctx context.Context, a *address, sameHost bool, deadline time.Time) ([]link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	streams := min(ep.dom.cfg.Streams, a.streams)
	crowd, leave := ep.dom.crowds.of(a.candidates)
	defer leave()
	links, where := make([]link, 2*streams), ""
	var mu sync.Mutex
	var first error // the others may end by it
	dial := func(i int) {
		var l link
		var at string
		err := crowd.do(ctx, func() (err error) {
			l, at, err = ep.dialLink(ctx, a, sameHost, where, i, streams, deadline)
			return err
		})
		mu.Lock()
		defer mu.Unlock()
		if links[i] = l; err != nil && first == nil {
			first = err
			cancel()
		}
		if i == 0 && len(a.candidates) > 1 {
			where = at
		}
	}
	var rest sync.WaitGroup
	for i := range links {
		if i == 0 && len(a.candidates) > 1 {
			dial(i)
		} else if ctx.Err() == nil {
			rest.Go(rdma.Guarded(ep.dom.cfg.OnPanic, func() { dial(i) }))
		}
	}
	rest.Wait()
	links = slices.DeleteFunc(links, func(l link) bool { return l.conn == nil })
	if first == nil && len(links) < 2*streams { // ctx was over before, or a panic ended one
		first = cmp.Or(context.Cause(ctx), error(rdma.ErrClosed))
	}
	return links, first
}

func (ep *endpoint) dialLink(ctx context.Context, a *address, sameHost bool, known string, i, streams int, deadline time.Time) (l link, at string, err error) {
	if l.conn, at, err = ep.dom.dialAny(ctx, a, sameHost, known); err != nil {
		return link{}, at, err
	}
	l.hello = hello{target: a.id, dialer: ep.id, index: uint8(i / 2), streams: uint8(streams), direction: uint8(i % 2), sums: summed(l.conn), timeout: ep.cfg.OpTimeout}
	l.raw, l.weAsk = l.hello.encode(&a.nonce), l.hello.direction == dialerAsks
	if err = wire.WriteFrame(l.conn, kindHello, l.raw, helloSize, deadline); err != nil {
		err = fmt.Errorf("send hello to %s: %w", at, err)
	}
	return l, at, err
}

// dialAny connects to the candidate known to work, or the first that does.
func (d *Domain) dialAny(ctx context.Context, a *address, sameHost bool, known string) (net.Conn, string, error) {
	list := a.candidates
	if known != "" {
		list = []string{known}
	}
	var errs []error
	for i, c := range list {
		host, _, _ := net.SplitHostPort(c) // checked by decodeAddress
		if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() && !sameHost {
			errs = append(errs, fmt.Errorf("%s is another host's loopback address: start the peer with an address that others can reach", c))
			continue
		}
		// A black hole must leave time for the others.
		end, _ := ctx.Deadline()
		each, cancel := context.WithTimeout(ctx, time.Until(end)/time.Duration(len(list)-i))
		conn, err := d.dial(each, a, sameHost, c)
		cancel()
		if err == nil {
			return conn, c, nil
		}
		errs = append(errs, err)
	}
	return nil, "", oneLine(errs)
}

func (d *Domain) dial(ctx context.Context, a *address, sameHost bool, at string) (net.Conn, error) {
	if d.cfg.Carrier != nil {
		return d.cfg.Carrier.Dial(ctx, at, a.peer)
	}
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "tcp", at)
	if err != nil || !covered(d.cfg.Cover, a.cover, sameHost) {
		return raw, err
	}
	c, err := cover(ctx, raw, a.peer)
	if err != nil {
		_ = raw.Close()
	}
	return c, err
}

// oneLine joins errors for a person to read; there is at least one candidate,
// so at least one error.
func oneLine(errs []error) error {
	err := errs[0]
	for _, e := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return err
}

// await takes the links that the peer opens and welcomes them.
func (ep *endpoint) await(a *address, deadline time.Time) ([]link, error) {
	streams := min(ep.dom.cfg.Streams, a.streams)
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	var offers []offer
	for offers == nil {
		if offers = ep.inbox.take(a.id, 2*streams); offers != nil {
			break
		}
		select {
		case <-ep.inbox.arrived:
		case <-ep.dead:
			return nil, rdma.ErrClosed
		case <-timer.C:
			return nil, fmt.Errorf("the peer did not open its %d links: %w; its Connect must run, and reach this host", 2*streams, rdma.ErrDeadline)
		}
	}
	var links []link
	for _, o := range offers {
		links = append(links, link{conn: o.conn, hello: o.hello, raw: o.raw, weAsk: o.direction == dialerAnswers, timeout: o.timeout})
	}
	for _, l := range links {
		if int(l.hello.streams) != streams || int(l.hello.index) >= streams {
			return links, fmt.Errorf("%w: a link with %d streams instead of %d", wire.ErrFrame, l.hello.streams, streams)
		}
	}
	for _, l := range links {
		w := encodeWelcome(ep.cfg.OpTimeout, &a.nonce, l.raw)
		if err := wire.WriteFrame(l.conn, kindWelcome, w, welcomeSize, deadline); err != nil {
			return links, fmt.Errorf("send welcome to %s: %w", l.conn.RemoteAddr(), err)
		}
	}
	return links, nil
}

// activate gives the links to the queue's engine, unless Close came first.
func (ep *endpoint) activate(links []link) error {
	ask := make([]*askLink, len(links)/2)
	answer := make([]*answerLink, len(links)/2)
	for _, l := range links {
		if err := ep.tune(l.conn, l.timeout); err != nil {
			return err
		}
	}
	// What arrives before everything is in place waits.
	ep.queue.role.Lock()
	defer ep.queue.role.Unlock()
	var err error
	for _, l := range links {
		var made error
		if l.weAsk {
			ask[l.hello.index], made = newAskLink(ep, l.conn, l.hello.sums)
		} else {
			answer[l.hello.index], made = newAnswerLink(ep, l.conn, l.hello.sums)
		}
		err = cmp.Or(err, made)
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if err == nil && ep.broken.Load() {
		err = rdma.ErrClosed
	}
	if err != nil {
		for _, l := range ask {
			if l != nil {
				l.p.close()
			}
		}
		for _, l := range answer {
			if l != nil {
				l.p.close()
			}
		}
		return err
	}
	ep.ask, ep.answer, ep.peerTimeout = ask, answer, links[0].timeout
	ep.connected.Store(true)
	for i := range ask {
		ep.queue.lookInto(ask[i].p, answer[i].p)
	}
	return nil
}

// sameHost: the connection never leaves this machine.
func sameHost(c net.Conn) bool {
	here, ok1 := c.LocalAddr().(*net.TCPAddr)
	there, ok2 := c.RemoteAddr().(*net.TCPAddr)
	return ok1 && ok2 && here.IP.Equal(there.IP)
}

const tcpUserTimeout = 18 // TCP_USER_TIMEOUT, linux/tcp.h; not in package syscall

// tune sets what the kernel should know. The user timeout ends a responder's
// reply to a peer that no longer reads; a requester gives up before, by its
// own clock.
func (ep *endpoint) tune(link net.Conn, peer time.Duration) error {
	if !sameHost(link) {
		ep.queue.far.Store(true)
	}
	c := socketOf(link)
	if c == nil {
		return nil // the carrier's
	}
	if err := c.SetNoDelay(true); err != nil {
		return err
	}
	if err := c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}); err != nil {
		return err
	}
	if n := ep.dom.cfg.SocketBytes; n > 0 {
		if err := errors.Join(c.SetReadBuffer(n), c.SetWriteBuffer(n)); err != nil {
			return err
		}
	} else if sameHost(c) {
		// Autotuning would let megabytes queue up, which leave the caches before
		// the peer reads them: 0.40 s of CPU a GB instead of 0.32.
		if err := c.SetWriteBuffer(sameHostBytes); err != nil {
			return err
		}
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	patience := max(2*ep.cfg.OpTimeout, 2*peer, time.Second)
	var set error
	err = raw.Control(func(fd uintptr) {
		set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(patience/time.Millisecond))
		set = errors.Join(set, prioritise(fd, urgent))
	})
	return errors.Join(err, set)
}
