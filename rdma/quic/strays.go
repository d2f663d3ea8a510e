package quic

import (
	"errors"
	"net"
	"sync"

	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
	"golang.org/x/net/ipv4"
)

var errStray = errors.New("quic: a datagram that is none of QUIC, or of no connection")

const (
	// rememberedDatagrams are more than quic-go has between reading one and dropping it.
	rememberedDatagrams = 512
	// strayQueue waits to be told; more are dropped, as whoever is told folds them.
	strayQueue = 64
	// knownPeers are those whose late datagrams are no matter; of more the first is forgotten.
	knownPeers = 4096
)

// strays finds out who sends datagrams that belong to no connection. quic-go says of one
// that it drops how long it was, and not whose: so the last ones of all are remembered,
// which costs a lock for each batch that is read, and looked through only when one is
// dropped.
type strays struct {
	*net.UDPConn
	batch *ipv4.PacketConn
	found chan *net.UDPAddr
	ended chan struct{} // closed by end

	mu    sync.Mutex
	last  [rememberedDatagrams]datagram
	next  int // of last, to be written
	known map[string]struct{}
	order []string // known, the first first
}

// datagram is one that was read.
type datagram struct {
	from  net.Addr // nil: none, or told already
	bytes int
}

func newStrays(c *net.UDPConn) *strays {
	return &strays{UDPConn: c, batch: ipv4.NewPacketConn(c), found: make(chan *net.UDPAddr, strayQueue), ended: make(chan struct{}), known: map[string]struct{}{}}
}

// ReadBatch is what quic-go reads by.
func (s *strays) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	n, err := s.batch.ReadBatch(ms, flags)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range ms[:max(n, 0)] {
		if m.N > 0 && m.Buffers[0][0]>>6 == 0 { // no QUIC: it drops that without a word
			s.stray(m.Addr)
			continue
		}
		s.last[s.next] = datagram{m.Addr, m.N}
		s.next = (s.next + 1) % len(s.last)
	}
	return n, err
}

// drops is told by quic-go what it drops that belongs to no connection.
type drops struct{ *strays }

// RecordEvent implements qlogwriter.Recorder.
func (s drops) RecordEvent(e qlogwriter.Event) {
	dropped, ok := e.(qlog.PacketDropped)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.last {
		d := &s.last[(s.next-1-i+2*len(s.last))%len(s.last)]
		if d.from == nil || d.bytes != dropped.Raw.Length {
			continue
		}
		if _, known := s.known[d.from.String()]; !known {
			s.stray(d.from)
			d.from = nil
			return
		}
	}
}

// run tells of what is found, until end.
func (s *strays) run(told func(net.Addr, error)) {
	for {
		select {
		case a := <-s.found:
			told(a, errStray)
		case <-s.ended:
			return
		}
	}
}

func (s *strays) end() { close(s.ended) }

// stray has an address told, later: whoever reads the socket waits for nobody. With mu.
func (s *strays) stray(from net.Addr) {
	if a, ok := from.(*net.UDPAddr); ok {
		select {
		case s.found <- a:
		default:
		}
	}
}

// know notes that there is, or was, a connection with a peer: what comes late of it, or
// twice, is no stranger's.
func (s *strays) know(peer net.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := peer.String()
	if _, ok := s.known[name]; ok {
		return
	}
	if len(s.order) == knownPeers {
		delete(s.known, s.order[0])
		s.order = append(s.order[:0], s.order[1:]...)
	}
	s.known[name] = struct{}{}
	s.order = append(s.order, name)
}

// Close implements qlogwriter.Recorder; the socket is the Carrier's to close.
func (drops) Close() error { return nil }
