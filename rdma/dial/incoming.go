package dial

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/openfiles"
)

// Incoming is a peer that said hello and waits for Finish or Reject.
type Incoming struct {
	Hello []byte // the application's first word
	Count int    // endpoints asked for
	Addr  string // where the peer's connection comes from
	Host  string // its host name and process id, as it says
	PID   int
	// Twins says that the peer would make a second endpoint for each.
	Twins bool

	wants   func(d rdma.Domain) bool // see WantTwins
	host    *Host
	control net.Conn
	terms   terms
	turn    int // counts the host's incoming connections
}

// OneKernel says whether the peer shares this process's kernel and network
// namespace: TCP between the two crosses no link.
func (in *Incoming) OneKernel() bool {
	here, peer := localFacts(), in.terms.Facts
	return here.Boot != "" && here.Boot == peer.Boot && here.Namespaces["net"] != "" && here.Namespaces["net"] == peer.Namespaces["net"]
}

// Reject tells the peer why it is not wanted, and whether that is Final; and drops it.
func (in *Incoming) Reject(err error) error {
	sent := in.refuse(err)
	return errors.Join(sent, in.control.Close())
}

func (in *Incoming) refuse(err error) error {
	return sendMsg(in.control, kindRefuse, refuseMsg{Version: Version, Error: err.Error(), Final: errors.Is(err, ErrFinal)}, in.soon())
}

func (in *Incoming) soon() time.Time { return time.Now().Add(in.host.cfg.StepTimeout) }

// WantTwins has Finish make twins, where the peer would too, on transports whose domains
// it says yes to. A twin is on the domain of its endpoint, and its number for attach is
// Count more.
func (in *Incoming) WantTwins(on func(d rdma.Domain) bool) { in.wants = on }

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
	offers := in.host.offers()
	choices, err := choose(in.host.terms(offers), in.terms, func(here, peer offer) bool {
		reach, distances := in.reach(offers, here.Name, peer)
		return pairRails(reach, distances, in.Count, 0) != nil
	})
	if err != nil {
		_ = in.refuse(err) // the peer may be gone already
		return nil, err
	}
	failure := ""
	for _, one := range choices {
		for _, pairs := range in.plans(offers, one.name) {
			ch := one
			if failure != "" {
				ch.reason = ch.name + ": " + failure
			}
			domains, eps, again, err := in.try(&ch, pairs, attach)
			if err == nil {
				return in.ready(ch, domains, eps, reply)
			}
			if !again {
				return nil, err
			}
			if failure != "" {
				failure += "; "
			}
			failure += fmt.Sprintf("%s could not be set up%s: %v", ch.name, onDevices(domains, pairs), openfiles.Explain(err))
		}
	}
	err = fmt.Errorf("%w works: %s", ErrNoTransport, failure)
	_ = in.refuse(err)
	return nil, err
}

// try sets up one transport. again: the failure is the transport's, the
// handshake can go on with another.
func (in *Incoming) try(ch *choice, pairs []railPair, attach func(i int, d rdma.Domain) rdma.EndpointConfig) (_ []rdma.Domain, eps []rdma.Endpoint, again bool, err error) {
	var here, there []int
	for _, p := range pairs {
		here, there = append(here, p.here), append(there, p.peer)
	}
	domains, err := in.host.onRails(ch.name, in.Count, here)
	if err != nil {
		return nil, nil, true, err
	}
	count := in.Count
	ch.twins = in.Twins && in.wants != nil && in.Count > 0 && in.wants(domains[0])
	if ch.twins {
		count *= 2
		domains, there = append(domains, domains...), append(there, there...)
	}
	ch.reason += onDevices(domains, pairs)
	var addresses [][]byte
	eps, addresses, err = prepare(domains, func(i int, d rdma.Domain) (rdma.EndpointConfig, error) { return attach(i, d), nil })
	if err != nil {
		return nil, nil, true, err
	}
	defer func() {
		if err != nil {
			_ = closeAll(eps)
		}
	}()
	if err = sendMsg(in.control, kindTry, tryMsg{Transport: ch.name, Reason: ch.reason, Addresses: addresses, Rails: there, Twins: ch.twins}, in.soon()); err != nil {
		return domains, eps, false, fmt.Errorf("send endpoint addresses: %w", err)
	}
	var tried triedMsg
	if _, err = readMsg(in.control, in.soon(), map[uint8]any{kindTried: &tried}); err != nil {
		return domains, eps, false, fmt.Errorf("wait for the peer's endpoint addresses: %w", err)
	}
	if tried.Error != "" {
		return domains, eps, !tried.Fatal, fmt.Errorf("the peer says: %s", tried.Error)
	}
	if err = checkAddresses(tried.Addresses, count); err != nil {
		return nil, eps, false, err
	}
	err = in.connect(eps, tried.Addresses)
	var lost controlError
	return domains, eps, !errors.As(err, &lost), err
}

// controlError: the control connection itself failed; nothing more can be tried.
type controlError struct{ error }

func (e controlError) Unwrap() error { return e.error }

// connect connects the endpoints while it waits for the peer's outcome. Who
// fails first closes its endpoints, so that the other side's Connect need not
// wait for its deadline where the transport notices.
func (in *Incoming) connect(eps []rdma.Endpoint, addresses [][]byte) error {
	connected := make(chan error, 1)
	var failed atomic.Bool // before the peer could hear of it: the cause
	go func() {
		err := in.host.connectAll(eps, addresses, in.soon())
		if err != nil {
			failed.Store(true)
			_ = closeAll(eps)
		}
		connected <- err
	}()
	var theirs outcomeMsg
	// The peer sends it after its own connecting, which has a step's time.
	_, lost := readMsg(in.control, time.Now().Add(2*in.host.cfg.StepTimeout), map[uint8]any{kindOutcome: &theirs})
	cause := failed.Load()
	if !cause && (lost != nil || theirs.Error != "") {
		_ = closeAll(eps)
	}
	mine := <-connected
	if !cause && theirs.Error != "" {
		mine = nil // the consequence of the peer's
	}
	switch {
	case lost != nil:
		return controlError{fmt.Errorf("wait for the peer's outcome: %w", lost)}
	case mine != nil:
		return mine
	case theirs.Error != "":
		return fmt.Errorf("the peer says: %s", theirs.Error)
	}
	return nil
}

func (in *Incoming) ready(ch choice, domains []rdma.Domain, eps []rdma.Endpoint, reply []byte) (*Conn, error) {
	if err := sendMsg(in.control, kindReady, readyMsg{ch.reason, reply}, in.soon()); err != nil {
		_ = closeAll(eps)
		return nil, fmt.Errorf("send ready: %w", err)
	}
	return newConn(in.host, in.control, in.Addr, ch.name, ch.reason, domains, eps, ch.twins)
}

// reach says how well the rails here and there meet; nil for a transport of
// one domain.
func (in *Incoming) reach(offers []offering, name string, theirs offer) (reach [][]int, distances []int) {
	for _, o := range offers {
		if o.Name == name && len(o.Rails) > 0 {
			return reachOf(o.domains, o.Rails, theirs.Rails), distancesOf(o.domains)
		}
	}
	return nil, nil
}

// plans are the ways to lay the endpoints over rails, to be tried in order:
// spread over all of them, and if one of those does not work after all, all
// endpoints on one pair. A transport of one domain has one plan, nil.
func (in *Incoming) plans(offers []offering, name string) [][]railPair {
	theirs, _ := offered(in.terms.Offers, name)
	reach, distances := in.reach(offers, name, theirs)
	if reach == nil {
		return [][]railPair{nil}
	}
	first := 0
	if in.Count < len(reach) { // begin where the connection before ended
		first = in.turn * in.Count
	}
	plans := [][]railPair{pairRails(reach, distances, in.Count, first)}
	for _, p := range single(reach) {
		plan := make([]railPair, in.Count)
		for k := range plan {
			plan[k] = p
		}
		plans = append(plans, plan)
	}
	return plans
}
