package relay

import (
	"errors"
	"fmt"

	"psrt/rdma"
	"psrt/rdma/mem"
)

var (
	// ErrProtocol: the peer broke the rules of this package.
	ErrProtocol = errors.New("relay: the peer's records make no sense")
	// ErrTooLarge: a message that this link does not carry.
	ErrTooLarge = errors.New("relay: message too large")
)

// Link is one end. See doc.go for who may call.
type Link struct {
	cfg    Config
	opt    Options
	domain rdma.Domain
	mapped bool
	cut    int // bytes of the longest record, header included
	arena  *mem.Arena
	region rdma.Region
	recv   []byte // of the arena: the peer writes here
	send   []byte // of the arena, or the peer's ring itself where that is mapped
	ep     rdma.Endpoint
	// version is what this end sends, since it is ready. What comes says it itself: it
	// may do so before.
	version int
	ready   bool
	closed  bool
	err     error

	out   outgoing
	in    incoming
	stats Stats
}

// New makes the rings of one end; what they cost is freed by Close. It may be called
// by any goroutine.
func New(d rdma.Domain, cfg Config) (*Link, error) {
	opt, err := cfg.Options.complete()
	if err != nil {
		return nil, err
	}
	l := &Link{cfg: cfg, opt: opt, domain: d}
	caps := d.Caps()
	l.mapped = caps.Mapped
	sendBytes, recvBytes := opt.BackBytes, opt.RingBytes
	if cfg.Dials {
		sendBytes, recvBytes = opt.RingBytes, opt.BackBytes
	}
	l.out.ring, l.in.ring = sendBytes, recvBytes
	size := recvBytes
	if !l.mapped {
		size += sendBytes
	}
	if caps.MaxDepth > 0 && max(opt.sendDepth(), opt.recvDepth()) > caps.MaxDepth {
		return nil, l.errorf("Options.Depth of %d takes %d requests, %s has %d at most", opt.Depth, opt.recvDepth(), caps.Transport, caps.MaxDepth)
	}
	if caps.MaxMessage < minRing/4 {
		return nil, l.errorf("%s carries %d bytes at a time, want %d at least", caps.Transport, caps.MaxMessage, minRing/4)
	}
	if l.arena, err = mem.New(mem.Config{Size: size, Node: cfg.Node, Purpose: "relay ring", Share: true}); err != nil {
		return nil, l.wrap(err)
	}
	if l.region, err = d.Register(l.arena, rdma.AccessRemoteWrite, "relay ring"); err != nil {
		l.arena.Close()
		return nil, l.wrap(err)
	}
	l.recv = l.arena.Bytes()[:recvBytes:recvBytes]
	l.send = l.arena.Bytes()[recvBytes:]
	l.in.decoder.max = uint64(opt.MaxMessageBytes)
	return l, nil
}

// Endpoint is what the link's endpoint must be made with.
func (l *Link) Endpoint(q rdma.Queue) rdma.EndpointConfig {
	return rdma.EndpointConfig{Queue: q, SendDepth: l.opt.sendDepth(), RecvDepth: l.opt.recvDepth(), SharedRecv: true,
		Peer: fmt.Sprintf("server %d (group %d)", l.cfg.Peer.Server, l.cfg.Group)}
}

// Offer is what the peer must know before it is Ready. Make it known after Attach.
func (l *Link) Offer() Offer {
	return Offer{Version: Oldest, Newest: l.opt.Speak, Ring: l.region.Remote().Slice(0, uint64(len(l.recv))), SendBytes: l.out.ring,
		Depth: l.opt.Depth, MaxMessageBytes: l.opt.MaxMessageBytes}
}

// Attach gives the link its endpoint, which is the link's from then on, and posts
// receives: what the peer sends may come.
func (l *Link) Attach(ep rdma.Endpoint) error {
	l.ep = ep
	if l.closed {
		ep.Close()
		return rdma.ErrClosed
	}
	l.in.recvs = make([]rdma.Recv, l.opt.recvDepth())
	for i := range l.in.recvs {
		l.in.recvs[i].ID = l.id(0)
	}
	l.in.used = len(l.in.recvs)
	l.repost()
	return l.err
}

// Ready begins to send, with what the peer offers.
func (l *Link) Ready(peer Offer) error {
	switch {
	case l.err != nil:
		return l.err
	case l.ready || l.closed || l.ep == nil:
		return l.errorf("this end is not waiting to be made ready")
	}
	if err := peer.check(l.opt.Speak); err != nil {
		return l.fail(err)
	}
	l.version = peer.spoken(l.opt.Speak)
	l.out.begin(min(l.out.ring, int(peer.Ring.Len)), min(l.opt.Depth, peer.Depth), peer.Ring)
	l.in.begin(min(l.in.ring, peer.SendBytes), min(l.opt.Depth, peer.Depth))
	l.opt.MaxMessageBytes = min(l.opt.MaxMessageBytes, peer.MaxMessageBytes)
	l.cut = min(l.out.ring/4, l.domain.Caps().MaxMessage) &^ (place - 1)
	if l.mapped {
		b, err := l.ep.Map(peer.Ring)
		if err != nil {
			return l.fail(err)
		}
		l.send = b
	}
	l.ready = true
	return l.Flush()
}

// Err says why the link is broken, nil while it is not. It names peer and group.
func (l *Link) Err() error { return l.err }

// Close ends the link: first the endpoint, until then the transport may use the
// rings. What waits is dropped.
func (l *Link) Close() {
	if l.closed {
		return
	}
	l.closed, l.ready = true, false
	if l.ep != nil {
		l.ep.Close()
	}
	l.region.Close()
	l.arena.Close()
	l.send, l.recv, l.in.assembly = nil, nil, nil
	l.out.drop()
}

func (l *Link) id(low uint32) uint64 { return uint64(l.cfg.ID)<<32 | uint64(low) }

// fail breaks the link; the first reason stays.
func (l *Link) fail(err error) error {
	if l.err == nil {
		l.err = l.wrap(err)
		l.out.drop()
	}
	return l.err
}

func (l *Link) wrap(err error) error {
	return fmt.Errorf("relay: group %d, server %d to server %d (generation %x): %w", l.cfg.Group, l.cfg.Self.Server, l.cfg.Peer.Server, l.cfg.Peer.Gen, err)
}

func (l *Link) errorf(format string, args ...any) error { return l.wrap(fmt.Errorf(format, args...)) }
