package dial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"psrt/rdma"
	"psrt/rdma/openfiles"
	"psrt/rdma/secure"
	"psrt/rdma/wire"
)

// Dial connects to the Listener at addr ("host:port" or "unix:PATH") with
// count endpoints. hello is the application's first word and reply the other
// application's answer.
//
// attach makes the configuration of endpoint i on domain d, of number count and above
// of twins. It is called again for every endpoint when the first transport cannot be set up and another one
// is tried; the endpoints of the failed try are closed by then. An error from
// attach ends the dial.
func (h *Host) Dial(ctx context.Context, addr string, hello []byte, count int, attach func(i int, d rdma.Domain) (rdma.EndpointConfig, error)) (*Conn, []byte, error) {
	return h.dial(ctx, addr, hello, count, false, attach)
}

// DialTwins is Dial that has a second endpoint for each, if the listener wants them:
// what one of two carries need not wait behind what the other does.
func (h *Host) DialTwins(ctx context.Context, addr string, hello []byte, count int, attach func(i int, d rdma.Domain) (rdma.EndpointConfig, error)) (*Conn, []byte, error) {
	return h.dial(ctx, addr, hello, count, 2*count <= MaxEndpoints, attach)
}

func (h *Host) dial(ctx context.Context, addr string, hello []byte, count int, twins bool, attach attachFunc) (*Conn, []byte, error) {
	if count < 0 || count > MaxEndpoints {
		return nil, nil, fmt.Errorf("dial: %s: %d endpoints: %w; use 0 to %d", addr, count, rdma.ErrInvalid, MaxEndpoints)
	}
	// Devices are opened now: the listener hangs up on whoever is connected and says nothing.
	says := h.terms(h.offers())
	network, address := splitAddr(addr)
	control, err := h.control(ctx, network, address)
	if err != nil {
		return nil, nil, fmt.Errorf("dial: %s: open control connection: %w", addr, openfiles.Explain(err))
	}
	// The end of ctx ends whatever the handshake waits for.
	stop := context.AfterFunc(ctx, func() { _ = control.Close() })
	if h.cfg.OnProve != nil {
		h.cfg.OnProve(control.RemoteAddr())
	}
	d := dialer{host: h, addr: addr, control: control, terms: says, count: count, twins: twins, attach: attach}
	conn, reply, err := d.shake(hello)
	if !stop() && err == nil {
		_ = conn.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = control.Close()
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return nil, nil, fmt.Errorf("dial: %s: %w", addr, err)
	}
	return conn, reply, nil
}

// control opens the control connection. A listener hangs up on whoever has not proved
// itself in time, which on a busy machine may be for want of a core on either side:
// then it is tried again, after a pause that is not everybody's. Nothing has been said by
// then that counts twice.
func (h *Host) control(ctx context.Context, network, address string) (c net.Conn, err error) {
	for try := range controlTries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return nil, err
			case <-time.After(controlPause/2 + rand.N(controlPause)):
			}
		}
		step, cancel := context.WithTimeout(ctx, h.cfg.StepTimeout)
		c, err = secure.Dial(step, network, address, h.cfg.Token)
		cancel()
		if !wire.HungUp(err) || errors.Is(err, secure.ErrToken) || ctx.Err() != nil {
			break
		}
	}
	return c, err
}

// dialer is one Dial in progress.
type dialer struct {
	host    *Host
	addr    string
	control net.Conn
	terms   terms
	count   int
	twins   bool // the listener may have them
	attach  attachFunc

	paired  bool            // the latest try is with twins
	eps     []rdma.Endpoint // of the latest try
	domains []rdma.Domain
	name    string
}

func (d *dialer) soon() time.Time { return time.Now().Add(d.host.cfg.StepTimeout) }

func (d *dialer) shake(hello []byte) (*Conn, []byte, error) {
	msg := helloMsg{Version: Version, Terms: d.terms, Count: d.count, Twins: d.twins, Hello: hello}
	if err := sendMsg(d.control, kindHello, msg, d.soon()); err != nil {
		return nil, nil, fmt.Errorf("send hello: %w", err)
	}
	conn, reply, err := d.answerTries()
	if err != nil {
		_ = closeAll(d.eps)
	}
	return conn, reply, err
}

// answer is what the listener says next: to try a transport, or that it is ready.
type answer struct {
	kind  uint8
	try   tryMsg
	ready readyMsg
	err   error
}

// hear takes the listener's next answer. Where none comes any more, because the listener
// or the dial has ended, the endpoints are closed: what connects them waits for nobody.
func (d *dialer) hear(patience time.Duration, eps []rdma.Endpoint) <-chan answer {
	heard, deadline := make(chan answer, 1), time.Now().Add(patience)
	go rdma.Guarded(d.host.cfg.OnPanic, func() {
		a := answer{err: rdma.ErrClosed} // nobody shall wait for one that has panicked
		defer func() {
			if a.err != nil {
				_ = closeAll(eps)
			}
			heard <- a
		}()
		a.kind, a.err = readMsg(d.control, deadline, map[uint8]any{kindTry: &a.try, kindReady: &a.ready})
	})()
	return heard
}

// patience is for an answer: the peer's application decides before it; see
// Config.StepTimeout.
func (d *dialer) patience() time.Duration { return 3 * d.host.cfg.StepTimeout }

// answerTries follows the listener's lead until it is ready or refuses.
func (d *dialer) answerTries() (*Conn, []byte, error) {
	connected := false
	heard := d.hear(d.patience(), nil)
	for {
		a := <-heard
		if a.err != nil {
			return nil, nil, fmt.Errorf("wait for the peer to accept: %w", a.err)
		}
		if a.kind == kindReady {
			if !connected {
				return nil, nil, fmt.Errorf("%w: ready although nothing is connected", wire.ErrFrame)
			}
			conn, err := newConn(d.host, d.control, d.addr, d.name, a.ready.Reason, d.domains, d.eps, d.paired)
			return conn, a.ready.Reply, err
		}
		_ = closeAll(d.eps)
		d.eps = nil
		var err error
		if connected, heard, err = d.try(&a.try); err != nil {
			return nil, nil, err
		}
	}
}

// try sets up the transport that the listener names and reports how it went; what the
// listener says then is heard. An error ends the handshake; false without error leaves it
// to the listener to try another one.
func (d *dialer) try(t *tryMsg) (connected bool, heard <-chan answer, err error) {
	count := d.count
	if d.paired = t.Twins; d.paired {
		if !d.twins {
			return false, nil, fmt.Errorf("%w: the peer has twins for endpoints that none were offered for", wire.ErrFrame)
		}
		count *= 2
	}
	if err := checkAddresses(t.Addresses, count); err != nil {
		return false, nil, err
	}
	var tried triedMsg
	domains, err := d.host.onRails(t.Transport, count, t.Rails)
	if err == nil {
		d.eps, tried.Addresses, err = prepare(domains, d.attach)
	}
	tried.Error = errorText(err)
	tried.Fatal = errors.As(err, new(attachError))
	if err2 := sendMsg(d.control, kindTried, tried, d.soon()); err2 != nil {
		return false, nil, fmt.Errorf("send endpoint addresses: %w", err2)
	}
	if err != nil {
		if tried.Fatal {
			return false, nil, err
		}
		return false, d.hear(d.patience(), nil), nil
	}
	heard = d.hear(d.host.cfg.StepTimeout+d.patience(), d.eps)
	d.domains, d.name = domains, t.Transport
	err = d.host.connectAll(d.eps, t.Addresses, d.soon())
	if err2 := sendMsg(d.control, kindOutcome, outcomeMsg{errorText(err)}, d.soon()); err2 != nil {
		return false, nil, fmt.Errorf("send outcome: %w", err2)
	}
	return err == nil, heard, nil
}
