package verbs

import (
	"errors"
	"fmt"
	"time"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// Connect takes the queue pair to RTS and returns when the peer's has answered
// a write of zero bytes. Where the peer is late, the device gives up after
// OpTimeout; then the queue pair begins anew, until the deadline.
func (ep *endpoint) Connect(peer []byte, deadline time.Time) error {
	remote, err := decodeAddress(peer)
	if err != nil {
		return err
	}
	ep.mu.Lock()
	if ep.state != fresh {
		defer ep.mu.Unlock()
		switch ep.state {
		case closed:
			return fmt.Errorf("verbs: connect to %s: %w", ep.cfg.Peer, rdma.ErrClosed)
		case broken:
			return ep.cause
		}
		return fmt.Errorf("verbs: connect to %s: an endpoint is connected once: %w; make a new one", ep.cfg.Peer, rdma.ErrInvalid)
	}
	ep.state = connecting
	path, err := ep.path(remote)
	ep.mu.Unlock()
	if err != nil {
		return ep.unconnected(rdma.StatusRetryExceeded, err)
	}
	for again := false; ; again = true {
		if err := ep.answer(path, again); err != nil {
			return ep.unconnected(rdma.StatusRetryExceeded, err)
		}
		// The peer is at this point, too, or nearly: a probe that it misses is
		// sent again only after the ACK timeout, which is long.
		time.Sleep(rtrPause)
		if err := ep.ask(path); err != nil {
			return ep.unconnected(rdma.StatusRetryExceeded, err)
		}
		switch outcome := ep.awaitProbe(deadline); outcome {
		case probeOK:
			return nil
		case probePosted:
			return ep.unconnected(rdma.StatusRetryExceeded, fmt.Errorf("%w while connecting by %s", rdma.ErrDeadline, describe(path)))
		case probeIdle: // closed, or broken by an event of the device
			return ep.unconnected(rdma.StatusRetryExceeded, errStopped)
		}
		ep.mu.Lock()
		heard := ep.recvTail > 0
		ep.mu.Unlock()
		if heard {
			return ep.unconnected(rdma.StatusRetryExceeded, errors.New("the peer's messages arrive, but it does not answer ours"))
		}
		if !time.Now().Before(deadline) {
			return ep.unconnected(rdma.StatusRetryExceeded, fmt.Errorf("%w while connecting by %s", rdma.ErrDeadline, describe(path)))
		}
	}
}

// unconnected breaks the endpoint and says why: what broke it before, if
// something did.
func (ep *endpoint) unconnected(status rdma.Status, cause error) error {
	ep.queue.mu.Lock()
	defer ep.queue.mu.Unlock()
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.state == closed {
		return fmt.Errorf("verbs: connect to %s: %w", ep.cfg.Peer, rdma.ErrClosed)
	}
	ep.breaks(ep.failure(rdma.OpWrite, status, 0, cause))
	return ep.cause
}

// path is what both sides' addresses give. With mu.
func (ep *endpoint) path(remote *address) (*ibv.Path, error) {
	d := ep.dom
	if remote.link != uint8(d.portNow.LinkLayer) {
		return nil, fmt.Errorf("%s port %d has link layer %s, the peer's port %s: %w; choose ports of one fabric by --device",
			d.cfg.Device, d.port, linkName(uint8(d.portNow.LinkLayer)), linkName(remote.link), rdma.ErrInvalid)
	}
	ep.mtu.Store(min(ep.mtu.Load(), uint32(remote.mtu)))
	p := &ibv.Path{
		DestQPN: remote.qpn, DestPSN: remote.psn, PSN: ep.psn,
		Port: uint32(d.port), DLID: remote.lid,
		MTU: ep.mtu.Load(), TrafficClass: uint32(d.cfg.TrafficClass), HopLimit: 64,
		ReadsOut: uint32(min(d.attr.MaxInitReads, int32(remote.readsIn))), ReadsIn: uint32(min(d.attr.MaxResponderReads, 255)),
		MinRNRTimer: rnrTimer(min(max(remote.opTimeout, minOpTimeout), maxOpTimeout)),
		Timeout:     ackTimeout(ep.cfg.OpTimeout), Retry: retryCount, RNRRetry: rnrRetryCount,
	}
	if d.portNow.LinkLayer == ibv.LinkEthernet || d.cfg.PinGID {
		mine, theirs, err := pair(ep.gids, remote.gids)
		if err != nil {
			return nil, err
		}
		p.Global, p.GIDIndex, p.DGID = 1, uint32(mine.index), theirs.raw
	}
	return p, nil
}

func linkName(l uint8) string {
	switch l {
	case 1:
		return "InfiniBand"
	case ibv.LinkEthernet:
		return "Ethernet"
	}
	return fmt.Sprint(l)
}

func describe(p *ibv.Path) string {
	if p.Global == 0 {
		return fmt.Sprintf("port %d to local id %d, queue pair %d", p.Port, p.DLID, p.DestQPN)
	}
	return fmt.Sprintf("port %d GID %d to %s, queue pair %d", p.Port, p.GIDIndex, gid{raw: p.DGID, kind: ibv.GIDTypeRoCEv2}, p.DestQPN)
}

const rtrPause = time.Millisecond

// answer takes the queue pair to RTR, again from RESET: then it answers the
// peer's probes. Meanwhile the kernel asks the network for the peer, which can
// take a second: others on the queue must not wait for that.
func (ep *endpoint) answer(path *ibv.Path, again bool) error {
	ep.moving.Lock()
	defer ep.moving.Unlock()
	if err := ep.rewind(again); err != nil {
		return err
	}
	if err := ep.qp.ToRTR(path); err != nil {
		return fmt.Errorf("%w (%s)", err, describe(path))
	}
	ep.answered.Store(true)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.state != connecting { // who ended it may have come before RTR
		_ = ep.qp.Error()
		return rdma.ErrClosed
	}
	return nil
}

// rewind makes a queue pair that has tried begin again. With moving.
func (ep *endpoint) rewind(again bool) error {
	q := ep.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.state != connecting {
		return rdma.ErrClosed
	}
	if !again {
		return nil
	}
	q.retag(ep)
	ep.answered.Store(false)
	ep.last.Store(false)
	if err := errors.Join(ep.qp.Reset(), ep.qp.Init(ep.dom.port)); err != nil {
		return err
	}
	for seq := ep.recvTail; seq < ep.recvNext && !ep.pooled; seq++ {
		at := seq & ep.recvMask
		ep.recvs[at].ID = ep.tag | recvBit | at
		if _, err := ep.qp.PostRecv(ep.recvs[at : at+1]); err != nil {
			return err
		}
	}
	return nil
}

// ask takes the queue pair to RTS and posts a probe.
func (ep *endpoint) ask(path *ibv.Path) error {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.state != connecting {
		return rdma.ErrClosed
	}
	if err := ep.qp.ToRTS(path); err != nil {
		return fmt.Errorf("%w (%s)", err, describe(path))
	}
	return ep.postProbe()
}

// awaitProbe waits until the probe has completed: probeOK, probeFailed;
// probePosted: the deadline passed; probeIdle: the endpoint was closed.
func (ep *endpoint) awaitProbe(deadline time.Time) probeState {
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 2*time.Millisecond) {
		ep.queue.mu.Lock()
		ep.queue.gather()
		ep.queue.mu.Unlock()
		ep.mu.Lock()
		p := ep.probe
		if ep.state != connecting {
			p = probeIdle
		} else if p == probeOK {
			ep.state, ep.probe = connected, probeIdle
		}
		ep.mu.Unlock()
		if p != probePosted || !time.Now().Before(deadline) {
			return p
		}
		time.Sleep(pause)
	}
}

// postProbe writes zero bytes to the peer: no key or address is looked at, but
// the peer's device must answer. With mu.
func (ep *endpoint) postProbe() error {
	w := [1]ibv.Send{{ID: ep.tag | probeSlot, Op: ibv.OpWrite, Flags: ibv.Signaled}}
	if _, err := ep.qp.PostSend(w[:], nil); err != nil {
		return err
	}
	ep.probe = probePosted
	return nil
}

// probed takes a probe's outcome. With mu.
func (ep *endpoint) probed(d *ibv.Done) {
	ep.probe = probeFailed
	ep.probes++
	if d.Status == ibv.StatusSuccess {
		ep.probe = probeOK
	}
	if ep.state != connected {
		return
	}
	ep.probe = probeIdle
	if d.Status != ibv.StatusSuccess && d.Status != ibv.StatusFlushed {
		ep.breaks(ep.failure(rdma.OpWrite, sendStatus(d.Status), d.VendorErr, fmt.Errorf("sign of life on %s: %s", ep.dom.cfg.Device, ibv.StatusText(d.Status))))
	}
}
