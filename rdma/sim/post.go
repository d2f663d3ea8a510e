package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"psrt/rdma"
)

func (e *endpoint) usable(what string, connected bool) error {
	if e.closed {
		return fmt.Errorf("sim: %s to %s: %w", what, e.cfg.Peer, rdma.ErrClosed)
	}
	if connected && e.failure == nil && e.peer == nil {
		return fmt.Errorf("sim: %s to %s: not connected: %w", what, e.cfg.Peer, rdma.ErrInvalid)
	}
	if e.failure != nil {
		return e.failure
	}
	return nil
}

func (e *endpoint) Post(wrs []rdma.WR) (int, error) {
	n := e.d.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := e.usable("post", true); err != nil {
		return 0, err
	}
	now := time.Now()
	for i := range wrs {
		if e.sends >= e.cfg.SendDepth {
			return i, nil
		}
		wr := wrs[i]
		if err := e.check(&wr); err != nil {
			return i, fmt.Errorf("sim: post %s of %d bytes to %s: %w", wr.Op, len(wr.Local), e.cfg.Peer, err)
		}
		if wr.Inline {
			wr.Local = bytes.Clone(wr.Local)
		}
		if e.lineFree.Before(now) {
			e.lineFree = now
		}
		if n.cfg.BytesPerSecond > 0 {
			e.lineFree = e.lineFree.Add(time.Duration(float64(len(wr.Local)) / n.cfg.BytesPerSecond * float64(time.Second)))
		}
		there := e.lineFree.Add(n.delay(e.rnd))
		if there.Before(e.lastThere) {
			there = e.lastThere // one endpoint keeps its order
		}
		e.lastThere = there
		f := flight{wr: wr, arrives: there, deadline: there.Add(e.cfg.OpTimeout)}
		e.inFlight = append(e.inFlight, f)
		e.sends++
		e.d.stats.Posted++
		e.alarm(there.Sub(now))
		e.alarm(f.deadline.Sub(now))
	}
	return len(wrs), nil
}

// alarm looks at the endpoint again after d.
func (e *endpoint) alarm(d time.Duration) {
	time.AfterFunc(d, func() {
		e.d.n.mu.Lock()
		defer e.d.n.mu.Unlock()
		e.pump()
	})
}

func (e *endpoint) check(wr *rdma.WR) error {
	n := len(wr.Local)
	bad := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, rdma.ErrInvalid)...)
	}
	switch {
	case wr.Op < rdma.OpSend || wr.Op > rdma.OpCompareSwap:
		return bad("not a request")
	case n > maxMessage:
		return bad("Caps.MaxMessage is %d: cut it", maxMessage)
	case wr.Op != rdma.OpSend && uint64(n) != wr.Remote.Len:
		return bad("Remote.Len is %d, must equal len(Local)", wr.Remote.Len)
	case (wr.Op == rdma.OpFetchAdd || wr.Op == rdma.OpCompareSwap) && (n != 8 || wr.Remote.Addr%8 != 0):
		return bad("an atomic has 8 aligned bytes, Remote.Addr is %#x", wr.Remote.Addr)
	case wr.Inline && (n > maxInline || wr.Op > rdma.OpWriteImm):
		return bad("inline is for sends and writes up to Caps.MaxInline %d", maxInline)
	case !wr.Inline && n > 0 && !e.d.holds(wr.Local):
		return bad("Local is not in a region of this domain: register it")
	}
	return nil
}

func (e *endpoint) PostRecv(rs []rdma.Recv) (int, error) {
	e.d.n.mu.Lock()
	defer e.d.n.mu.Unlock()
	if err := e.usable("post receive", false); err != nil {
		return 0, err
	}
	n := 0
	for ; n < len(rs) && e.receives < e.cfg.RecvDepth; n++ {
		if len(rs[n].Buf) > 0 && !e.d.holds(rs[n].Buf) {
			return n, fmt.Errorf("sim: post receive of %d bytes: Buf is not registered: %w", len(rs[n].Buf), rdma.ErrInvalid)
		}
		e.recvs = append(e.recvs, rs[n])
		e.receives++
	}
	if e.peer != nil {
		e.peer.pump()
	}
	return n, nil
}

// pump executes, in order, what has arrived at the peer.
func (e *endpoint) pump() {
	now := time.Now()
	e.takeAnswers(now)
	for len(e.inFlight) > 0 && e.failure == nil && !e.inFlight[0].arrives.After(now) {
		f, p := e.inFlight[0], e.peer
		late := !now.Before(f.deadline)
		switch {
		case p.closed || p.failure != nil || !e.d.n.passes(e.d.name, p.d.name):
			if late {
				e.breakWith(rdma.StatusRetryExceeded)
			}
			return
		case (f.wr.Op == rdma.OpSend || f.wr.Op == rdma.OpWriteImm) && len(p.recvs) == 0:
			if late {
				e.breakWith(rdma.StatusRNR)
			}
			return
		}
		if s := e.execute(&f.wr); s != rdma.StatusOK {
			e.breakWith(s)
			return
		}
		e.inFlight = e.inFlight[1:]
		e.d.stats.SentBytes += uint64(len(f.wr.Local))
		e.answer(f)
	}
}

// answer completes f one latency later.
func (e *endpoint) answer(f flight) {
	back := time.Duration(e.d.n.cfg.LatencyMicros) * time.Microsecond
	f.arrives = time.Now().Add(back)
	f.deadline = f.deadline.Add(back)
	e.executed = append(e.executed, f)
	if back == 0 {
		e.takeAnswers(time.Now())
		return
	}
	e.alarm(back)
	e.alarm(time.Until(f.deadline))
}

// takeAnswers completes in order what was executed and answered by now; an
// answer that is lost for the whole OpTimeout breaks the endpoint although
// the peer has executed the request. Timers of one instant run in any order,
// so none of them stands for one request.
func (e *endpoint) takeAnswers(now time.Time) {
	for len(e.executed) > 0 && !e.executed[0].arrives.After(now) {
		f := e.executed[0]
		if !e.d.n.passes(e.peer.d.name, e.d.name) {
			if !now.Before(f.deadline) {
				e.breakWith(rdma.StatusRetryExceeded)
			}
			return
		}
		e.executed = e.executed[1:]
		e.done(f.wr, rdma.StatusOK)
	}
}

// execute does wr at the peer.
func (e *endpoint) execute(wr *rdma.WR) rdma.Status {
	p := e.peer
	need := map[rdma.Op]rdma.Access{rdma.OpWrite: rdma.AccessRemoteWrite, rdma.OpWriteImm: rdma.AccessRemoteWrite,
		rdma.OpRead: rdma.AccessRemoteRead, rdma.OpFetchAdd: rdma.AccessRemoteAtomic, rdma.OpCompareSwap: rdma.AccessRemoteAtomic}[wr.Op]
	var far []byte
	if wr.Op != rdma.OpSend && len(wr.Local) > 0 {
		var ok bool
		if far, ok = p.d.reach(wr.Remote, need); !ok {
			return rdma.StatusRemoteAccess
		}
	}
	switch wr.Op {
	case rdma.OpWrite, rdma.OpWriteImm:
		copy(far, wr.Local)
	case rdma.OpRead:
		copy(wr.Local, far)
	case rdma.OpFetchAdd, rdma.OpCompareSwap:
		old := binary.NativeEndian.Uint64(far)
		copy(wr.Local, far)
		if wr.Op == rdma.OpFetchAdd {
			binary.NativeEndian.PutUint64(far, old+wr.Add)
		} else if old == wr.Compare {
			binary.NativeEndian.PutUint64(far, wr.Swap)
		}
	}
	if wr.Op != rdma.OpSend && wr.Op != rdma.OpWriteImm {
		return rdma.StatusOK
	}
	r := p.recvs[0]
	p.recvs = p.recvs[1:]
	c := rdma.Completion{ID: r.ID, Op: rdma.OpRecvImm, Imm: wr.Imm, Bytes: len(wr.Local), Endpoint: p}
	if wr.Op == rdma.OpSend {
		c.Op, c.Imm = rdma.OpRecv, 0
		if len(wr.Local) > len(r.Buf) {
			c.Status, c.Bytes, c.Err = rdma.StatusLocalLength, 0, p.fails(rdma.OpRecv, rdma.StatusLocalLength)
			p.q.add(c)
			p.breakWith(rdma.StatusPeerGone)
			return rdma.StatusRemoteInvalid
		}
		copy(r.Buf, wr.Local)
	}
	p.d.stats.ReceivedBytes += uint64(len(wr.Local))
	p.q.add(c)
	return rdma.StatusOK
}
