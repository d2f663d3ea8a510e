package dial

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"psrt/rdma/wire"
)

// Refusals makes lines for a log of refused connections (Config.OnReject): the first of
// an address is told at once; those that follow within foldFor are told by one line
// behind it, and so on until none came for as long. A flood of strangers so costs a line
// per second and address, for at most foldedHosts addresses and all others together.
// Safe for concurrent use.
type Refusals struct {
	say func(line string)

	mu     sync.Mutex
	hosts  map[string]*folded
	closed bool

	members members
}

// members is what is known of who hangs up. It has a lock of its own, which nobody holds
// while a line is said: peers that prove themselves wait for nobody's log.
type members struct {
	mu     sync.Mutex
	proved map[string]bool        // hosts of peers that have proved the token
	silent map[string]*time.Timer // hosts of those that hung up, which may be peers'; nil: closed
}

// folded are the refusals of one address since its last line.
type folded struct {
	n    int
	last error
	due  *time.Timer // tells them
}

const (
	foldFor     = time.Second
	foldedHosts = 256
	otherHosts  = "other addresses"
	provedHosts = 1 << 14 // more than a job has
	// silentFor is how long a host of which somebody has hung up may take to prove itself.
	silentFor = 5 * time.Second
)

var errHungUp = errors.New("it hung up without proving the token")

// NewRefusals gives lines to say, one call at a time and none after Close.
func NewRefusals(say func(line string)) *Refusals {
	return &Refusals{say: say, hosts: map[string]*folded{}, members: members{proved: map[string]bool{}, silent: map[string]*time.Timer{}}}
}

// OnReject is a Config's.
func (r *Refusals) OnReject(addr net.Addr, err error) {
	host := hostOf(addr)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	f := r.hosts[host]
	if f == nil && len(r.hosts) >= foldedHosts {
		host = otherHosts
		f = r.hosts[host]
	}
	if f != nil {
		f.n, f.last = f.n+1, err
		return
	}
	r.hosts[host] = &folded{due: time.AfterFunc(foldFor, func() { r.tell(host) })}
	r.say(fmt.Sprintf("%s %v: %v", verb(err), addr, err))
}

// OnStranger is OnReject, but for those of a member's host that have hung up by themselves:
// members of a job give connections up that are needless by the time that they stand.
func (r *Refusals) OnStranger(addr net.Addr, err error) {
	if !wire.HungUp(err) {
		r.OnReject(addr, err)
		return
	}
	if addr.Network() == "unix" { // of this host
		return
	}
	host, m := hostOf(addr), &r.members
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent == nil || m.proved[host] || m.silent[host] != nil || len(m.silent) >= foldedHosts {
		return
	}
	m.silent[host] = time.AfterFunc(silentFor, func() {
		m.mu.Lock()
		member := m.proved[host]
		delete(m.silent, host)
		m.mu.Unlock()
		if !member {
			r.OnReject(addr, errHungUp)
		}
	})
}

// OnProve is a Config's.
func (r *Refusals) OnProve(addr net.Addr) {
	host, m := hostOf(addr), &r.members
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.proved) < provedHosts {
		m.proved[host] = true
	}
}

func (m *members) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.silent {
		t.Stop()
	}
	m.silent = nil
}

// tell says what has come of a host since its last line.
func (r *Refusals) tell(host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.hosts[host]
	switch {
	case f == nil: // closed
	case f.n == 0:
		delete(r.hosts, host)
	default:
		r.say(more(host, f))
		f.n, f.last = 0, nil
		f.due.Reset(foldFor)
	}
}

// Close says what has not been told.
func (r *Refusals) Close() {
	r.members.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for host, f := range r.hosts {
		f.due.Stop()
		if f.n > 0 {
			r.say(more(host, f))
		}
	}
	r.hosts, r.closed = nil, true
}

func more(host string, f *folded) string {
	if errors.Is(f.last, wire.ErrSum) {
		return fmt.Sprintf("ended %d more connections to %s within %v; the last: %v", f.n, host, foldFor, f.last)
	}
	return fmt.Sprintf("refused %d more from %s within %v; the last: %v", f.n, host, foldFor, f.last)
}

// verb is the fate of a connection.
func verb(err error) string {
	if errors.Is(err, wire.ErrSum) {
		return "ended the connection to"
	}
	return "refused"
}

// hostOf is an address without its port, which is another for each connection.
func hostOf(addr net.Addr) string {
	if host, _, err := net.SplitHostPort(addr.String()); err == nil {
		return host
	}
	return addr.Network() + " " + addr.String()
}
