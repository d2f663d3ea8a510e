package dial

import (
	"errors"
	"fmt"
	"net"
	"time"

	"psrt/rdma"
)

// Incoming is a peer that said hello and waits for Finish or Reject.
type Incoming struct {
	Hello []byte // the application's first word
	Count int    // endpoints asked for
	Addr  string // where the peer's connection comes from
	Host  string // its host name and process id, as it says
	PID   int

	host    *Host
	control net.Conn
	terms   terms
}

// Reject tells the peer why it is not wanted, and drops it.
func (in *Incoming) Reject(err error) error {
	sent := in.refuse(err)
	return errors.Join(sent, in.control.Close())
}

func (in *Incoming) refuse(err error) error {
	return sendMsg(in.control, kindRefuse, refuseMsg{Version: Version, Error: err.Error()}, in.soon())
}

func (in *Incoming) soon() time.Time { return time.Now().Add(in.host.cfg.StepTimeout) }

// Finish sets the connection up over the best transport that works. attach
// makes the configuration of endpoint i on domain d; it is called again, for
// every endpoint, when a transport fails and the next is tried. reply is the
// application's answer to Hello.
func (in *Incoming) Finish(attach func(i int, d rdma.Domain) rdma.EndpointConfig, reply []byte) (*Conn, error) {
	conn, err := in.finish(attach, reply)
	if err != nil {
		_ = in.control.Close()
		return nil, fmt.Errorf("dial: accept %s: %w", in.Addr, err)
	}
	return conn, nil
}

func (in *Incoming) finish(attach func(i int, d rdma.Domain) rdma.EndpointConfig, reply []byte) (*Conn, error) {
	choices, err := choose(in.host.terms(), in.terms)
	if err != nil {
		return nil, errors.Join(err, in.refuse(err))
	}
	failure := ""
	for _, ch := range choices {
		if failure != "" {
			ch.reason = ch.name + ": " + failure
		}
		domain, eps, again, err := in.try(ch, attach)
		if err == nil {
			return in.ready(ch, domain, eps, reply)
		}
		if !again {
			return nil, err
		}
		if failure != "" {
			failure += "; "
		}
		failure += fmt.Sprintf("%s could not be set up: %v", ch.name, err)
	}
	err = fmt.Errorf("%w works: %s", ErrNoTransport, failure)
	return nil, errors.Join(err, in.refuse(err))
}

// try sets up one transport. again: the failure is the transport's, the
// handshake can go on with another.
func (in *Incoming) try(ch choice, attach func(i int, d rdma.Domain) rdma.EndpointConfig) (_ rdma.Domain, eps []rdma.Endpoint, again bool, err error) {
	domain, err := in.host.Domain(ch.name)
	if err != nil {
		return nil, nil, true, err
	}
	var addresses [][]byte
	eps, addresses, err = prepare(domain, in.Count, func(i int, d rdma.Domain) (rdma.EndpointConfig, error) { return attach(i, d), nil })
	if err != nil {
		return nil, nil, true, err
	}
	defer func() {
		if err != nil {
			closeAll(eps)
		}
	}()
	if err = sendMsg(in.control, kindTry, tryMsg{ch.name, ch.reason, addresses}, in.soon()); err != nil {
		return nil, eps, false, fmt.Errorf("send endpoint addresses: %w", err)
	}
	var tried triedMsg
	if _, err = readMsg(in.control, in.soon(), map[uint8]any{kindTried: &tried}); err != nil {
		return nil, eps, false, fmt.Errorf("wait for the peer's endpoint addresses: %w", err)
	}
	if tried.Error != "" {
		return nil, eps, !tried.Fatal, fmt.Errorf("the peer says: %s", tried.Error)
	}
	if err = checkAddresses(tried.Addresses, in.Count); err != nil {
		return nil, eps, false, err
	}
	mine := connectAll(eps, tried.Addresses, in.soon())
	var theirs outcomeMsg
	if _, err = readMsg(in.control, in.soon(), map[uint8]any{kindOutcome: &theirs}); err != nil {
		return nil, eps, false, fmt.Errorf("wait for the peer's outcome: %w", errors.Join(err, mine))
	}
	if err = mine; theirs.Error != "" {
		err = errors.Join(err, fmt.Errorf("the peer says: %s", theirs.Error))
	}
	return domain, eps, true, err
}

func (in *Incoming) ready(ch choice, domain rdma.Domain, eps []rdma.Endpoint, reply []byte) (*Conn, error) {
	if err := sendMsg(in.control, kindReady, readyMsg{ch.reason, reply}, in.soon()); err != nil {
		closeAll(eps)
		return nil, fmt.Errorf("send ready: %w", err)
	}
	return newConn(in.host, in.control, in.Addr, ch.name, ch.reason, domain, eps)
}
