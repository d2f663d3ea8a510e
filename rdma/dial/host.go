package dial

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"psrt/rdma"
	"psrt/rdma/tcp"
)

// Host is a process as its peers see it: it owns the domains, opened when the
// first connection needs them. Safe for concurrent use.
type Host struct {
	cfg   Config
	facts facts

	mu        sync.Mutex
	closed    bool
	dataHost  string // host part for the tcp transport's listener, "" none
	domains   map[string]rdma.Domain
	opened    []rdma.Domain // in order
	listeners map[*Listener]struct{}
	conns     map[*Conn]struct{}
	reason    string
}

// New makes a host; nothing is opened yet.
func New(cfg Config) (*Host, error) {
	h := &Host{
		facts:     localFacts(),
		domains:   map[string]rdma.Domain{},
		listeners: map[*Listener]struct{}{},
		conns:     map[*Conn]struct{}{},
	}
	if err := cfg.complete(h.builtin()); err != nil {
		return nil, err
	}
	h.cfg = cfg
	return h, nil
}

func (h *Host) terms() terms {
	t := terms{Want: h.cfg.Transport, Facts: h.facts}
	for _, x := range h.cfg.Transports {
		t.Offers = append(t.Offers, offer{x.Name, x.CrossHost})
	}
	return t
}

// openTCP opens the tcp domain on the address that the host listens on. With mu.
func (h *Host) openTCP() (rdma.Domain, error) {
	return tcp.New(tcp.Config{Listen: h.dataAddr(), Streams: h.cfg.Streams})
}

func (h *Host) dataAddr() string {
	if h.cfg.Listen != "" || h.dataHost == "" {
		return h.cfg.Listen
	}
	return net.JoinHostPort(h.dataHost, "0")
}

// listening notes where control connections come in, so that data connections
// come in there too.
func (h *Host) listening(a net.Addr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dataHost != "" {
		return nil
	}
	h.dataHost = "127.0.0.1" // peers of a unix socket are on this host
	if t, ok := a.(*net.TCPAddr); ok {
		h.dataHost = t.IP.String()
	}
	if d, ok := h.domains["tcp"].(*tcp.Domain); ok && h.cfg.Listen == "" {
		return d.Listen(h.dataAddr())
	}
	return nil
}

// Domain opens the named transport, once.
func (h *Host) Domain(name string) (rdma.Domain, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("dial: open %s: %w", name, rdma.ErrClosed)
	}
	if d := h.domains[name]; d != nil {
		return d, nil
	}
	for _, t := range h.cfg.Transports {
		if t.Name == name {
			d, err := t.Open()
			if err != nil {
				return nil, fmt.Errorf("dial: open transport %s: %w", name, err)
			}
			h.domains[name] = d
			h.opened = append(h.opened, d)
			return d, nil
		}
	}
	return nil, fmt.Errorf("dial: open %s: %w: this process offers %s", name, ErrNoTransport, names(h.terms().Offers))
}

// Domains are the transports opened so far, oldest first.
func (h *Host) Domains() []rdma.Domain {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]rdma.Domain(nil), h.opened...)
}

// Reason says which transport the newest connection uses and why, "" before
// the first.
func (h *Host) Reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason
}

// adopt takes a finished connection into the host's care.
func (h *Host) adopt(c *Conn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return rdma.ErrClosed
	}
	h.reason = c.Reason
	h.conns[c] = struct{}{}
	return nil
}

func (h *Host) forget(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

// Close closes listeners, connections and domains, in this order.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	var listeners []*Listener
	for l := range h.listeners {
		listeners = append(listeners, l)
	}
	var conns []*Conn
	for c := range h.conns {
		conns = append(conns, c)
	}
	domains := h.opened
	h.opened = nil
	h.mu.Unlock()
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	for _, c := range conns {
		errs = append(errs, c.Close())
	}
	for _, d := range domains {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
