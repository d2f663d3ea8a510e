package dial

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"psrt/rdma"
	"psrt/rdma/quic"
	"psrt/rdma/tcp"
	"psrt/rdma/wire"
)

// Host is a process as its peers see it: it owns the domains, opened when the
// first connection needs them. Safe for concurrent use.
type Host struct {
	cfg   Config
	given []Transport // as New was given them
	facts facts

	mu        sync.Mutex
	closed    bool
	dataHost  string // host part for the tcp transport's listener, "" none
	domains   map[string][]rdma.Domain
	lacks     map[string]error // transports that could not be opened
	opened    []rdma.Domain    // in order
	listeners map[*Listener]struct{}
	conns     map[*Conn]struct{}
	reason    string

	turns atomic.Int64 // incoming connections
}

// New makes a host; nothing is opened yet.
func New(cfg Config) (*Host, error) {
	h := &Host{
		given:     cfg.Transports,
		facts:     localFacts(),
		domains:   map[string][]rdma.Domain{},
		lacks:     map[string]error{},
		listeners: map[*Listener]struct{}{},
		conns:     map[*Conn]struct{}{},
	}
	if err := cfg.complete(h.builtin()); err != nil {
		return nil, err
	}
	h.cfg = cfg
	return h, nil
}

// Only makes another Host of this process, with the same secret, that uses one transport.
// The caller closes it.
func (h *Host) Only(transport string) (*Host, error) {
	cfg := h.cfg
	cfg.Transport, cfg.Transports, cfg.Listen = transport, h.given, ""
	return New(cfg)
}

// OnPanic is Config.OnPanic.
func (h *Host) OnPanic() func(any) { return h.cfg.OnPanic }

func (h *Host) terms(offers []offering) terms {
	t := terms{Want: h.cfg.Transport, Facts: h.facts}
	for _, o := range offers {
		t.Offers = append(t.Offers, o.offer)
	}
	return t
}

// offers says what this process can do now: rails go down and come back.
func (h *Host) offers() []offering {
	var list []offering
	for _, x := range h.cfg.Transports {
		o := offering{offer: offer{Name: x.Name, CrossHost: x.CrossHost}}
		if x.Rails != nil && (h.cfg.Transport == Auto || h.cfg.Transport == x.Name) {
			var err error
			if o.domains, err = h.open(x.Name); err == nil {
				o.Rails, err = describe(o.domains)
			}
			o.Lack = errorText(err)
		}
		list = append(list, o)
	}
	return list
}

// openTCP opens the tcp domain on the address that the host listens on. With mu.
func (h *Host) openTCP() (rdma.Domain, error) {
	return tcp.New(tcp.Config{Listen: h.dataAddr(), Streams: h.cfg.Streams, Cover: h.cfg.Cover, OnPanic: h.cfg.OnPanic, OnReject: h.cfg.OnReject, OnProve: h.cfg.OnProve})
}

// openQUIC likewise. With mu.
func (h *Host) openQUIC() (rdma.Domain, error) {
	c, err := quic.New()
	if err != nil {
		return nil, err
	}
	c.OnStray(h.cfg.OnReject)
	d, err := tcp.New(tcp.Config{Carrier: c, Listen: h.dataAddr(), Streams: h.cfg.Streams, OnPanic: h.cfg.OnPanic, OnReject: h.cfg.OnReject, OnProve: h.cfg.OnProve})
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return d, nil
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
	for _, d := range h.opened {
		if d, ok := d.(*tcp.Domain); ok && h.cfg.Listen == "" {
			if err := d.Listen(h.dataAddr()); err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens the named transport, once.
func (h *Host) open(name string) ([]rdma.Domain, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("dial: open %s: %w", name, rdma.ErrClosed)
	}
	if ds := h.domains[name]; ds != nil {
		return ds, nil
	}
	if err := h.lacks[name]; err != nil {
		return nil, err
	}
	for _, t := range h.cfg.Transports {
		if t.Name != name {
			continue
		}
		ds, err := t.open()
		if err != nil {
			if t.Rails != nil { // devices are looked for once: it takes a while
				h.lacks[name] = err
				return nil, err
			}
			return nil, fmt.Errorf("dial: open transport %s: %w", name, err)
		}
		h.domains[name] = ds
		h.opened = append(h.opened, ds...)
		return ds, nil
	}
	return nil, fmt.Errorf("dial: open %s: %w: this process does not offer it", name, ErrNoTransport)
}

func (t *Transport) open() ([]rdma.Domain, error) {
	if t.Rails != nil {
		ds, err := t.Rails()
		if err == nil && len(ds) == 0 {
			err = fmt.Errorf("dial: open transport %s: %w: no device", t.Name, ErrNoTransport)
		}
		return ds, err
	}
	d, err := t.Open()
	return []rdma.Domain{d}, err
}

// onRails gives the domain of each of count endpoints: rails[k] of the
// transport's domains, or where it has only one, that.
func (h *Host) onRails(name string, count int, rails []int) ([]rdma.Domain, error) {
	all, err := h.open(name)
	if err != nil {
		return nil, err
	}
	if len(rails) != count && (len(rails) > 0 || len(all) > 1) {
		return nil, fmt.Errorf("dial: %s: %d rails are named for %d endpoints: %w", name, len(rails), count, wire.ErrFrame)
	}
	list := make([]rdma.Domain, count)
	for k := range list {
		i := 0
		if len(rails) > 0 {
			i = rails[k]
		}
		if i < 0 || i >= len(all) {
			return nil, fmt.Errorf("dial: %s: rail %d is named, there are %d: %w", name, i, len(all), wire.ErrFrame)
		}
		list[k] = all[i]
	}
	return list, nil
}

// Domains are the transports opened so far, oldest first.
func (h *Host) Domains() []rdma.Domain {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]rdma.Domain(nil), h.opened...)
}

// Damaged counts connections that ended because bytes arrived with a wrong checksum.
func (h *Host) Damaged() (n uint64) {
	for _, d := range h.Domains() {
		n += d.Stats().Damaged
	}
	return n
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
