package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"psrt/rdma"
)

// Config is what every path of a Network is like. The zero value is a perfect
// network without delay.
type Config struct {
	LatencyMicros    int     // one way
	JitterMicros     int     // up to this much more, drawn per request
	BytesPerSecond   float64 // of one endpoint and direction; 0: unlimited
	Loss             float64 // chance that one transmission is lost, 0 <= Loss < 1
	RetransmitMicros int     // delay that one loss costs; 0 means 1000
}

// Network joins its domains. Safe for concurrent use.
type Network struct {
	mu        sync.Mutex
	seed      uint64
	cfg       Config
	endpoints map[uint64]*endpoint
	lastID    uint64
	cut       map[[2]string]bool
	gone      map[string]bool
}

// New makes a Network; the same seed draws the same delays and losses.
func New(seed uint64, cfg Config) (*Network, error) {
	if cfg.Loss < 0 || cfg.Loss >= 1 || cfg.LatencyMicros < 0 || cfg.JitterMicros < 0 || cfg.BytesPerSecond < 0 || cfg.RetransmitMicros < 0 {
		return nil, fmt.Errorf("sim: %+v: Loss must be in [0,1) and nothing negative: %w", cfg, rdma.ErrInvalid)
	}
	if cfg.RetransmitMicros == 0 {
		cfg.RetransmitMicros = 1000
	}
	return &Network{seed: seed, cfg: cfg, endpoints: map[uint64]*endpoint{},
		cut: map[[2]string]bool{}, gone: map[string]bool{}}, nil
}

// Domain opens a domain; name is what Cut, Heal and Vanish call it.
func (n *Network) Domain(name string) rdma.Domain {
	return &domain{n: n, name: name, regions: map[uint64]*region{}, endpoints: map[*endpoint]bool{}, queues: map[*queue]bool{}}
}

// Cut loses everything that goes from one domain to another, one way.
func (n *Network) Cut(from, to string) {
	n.mu.Lock()
	n.cut[[2]string{from, to}] = true
	n.mu.Unlock()
}

// Heal ends a Cut; requests that still wait go on.
func (n *Network) Heal(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cut, [2]string{from, to})
	for _, e := range n.endpoints {
		e.join()
		if e.peer != nil {
			e.pump()
		}
	}
}

// Break puts the endpoints of one domain that lead to another into the error
// state, as a failing queue pair does: the peer hears nothing of it.
func (n *Network) Break(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.endpoints {
		if p := e.peer; p != nil && !e.closed && e.failure == nil && e.d.name == from && p.d.name == to {
			e.breakWith(rdma.StatusRetryExceeded)
		}
	}
}

// Vanish makes a domain fall silent for ever, as a lost host does.
func (n *Network) Vanish(name string) {
	n.mu.Lock()
	n.gone[name] = true
	n.mu.Unlock()
}

// passes tells whether what one domain sends reaches another. A request needs
// the way there and its answer the way back.
func (n *Network) passes(from, to string) bool {
	return !n.gone[from] && !n.gone[to] && !n.cut[[2]string{from, to}]
}

// delay draws the way of one request.
func (n *Network) delay(r *rand.Rand) time.Duration {
	us := n.cfg.LatencyMicros
	if n.cfg.JitterMicros > 0 {
		us += r.IntN(n.cfg.JitterMicros + 1)
	}
	for n.cfg.Loss > 0 && r.Float64() < n.cfg.Loss {
		us += n.cfg.RetransmitMicros
	}
	return time.Duration(us) * time.Microsecond
}
