package qualify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"psrt/bench/micro"
	"psrt/bench/report"
	"psrt/rdma"
	"psrt/rdma/dial"
)

// act is what a rank does for one serial, on either side.
type act struct {
	visit  visit
	ctx    context.Context
	cancel context.CancelCauseFunc
	in     chan *dial.Incoming // the peer that was expected; capacity 1
	done   chan struct{}       // closed when nothing of it is left
	err    error               // valid then
}

// begin makes room for a serial: a rank does one thing at a time.
func (r *rank) begin(v visit) (*act, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acts == nil {
		return nil, rdma.ErrClosed
	}
	if len(r.acts) > 0 {
		return nil, fmt.Errorf("qualify: rank %d is still busy with another pair", r.cfg.Rank)
	}
	a := &act{visit: v, in: make(chan *dial.Incoming, 1), done: make(chan struct{})}
	ctx, stop := context.WithTimeout(context.Background(), r.plan.duelLimit())
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(a.ctx, stop)
	r.acts[v.Serial] = a
	return a, nil
}

// finish ends an act; it stays known until it is settled.
func (a *act) finish(err error) {
	a.err = err
	a.cancel(nil)
	close(a.done)
}

// settle ends whatever is under way for the serial, and says how it went.
func (r *rank) settle(v visit) settled {
	r.mu.Lock()
	a := r.acts[v.Serial]
	r.mu.Unlock()
	if a == nil {
		return settled{}
	}
	a.cancel(nil)
	<-a.done
	r.mu.Lock()
	delete(r.acts, v.Serial)
	r.mu.Unlock()
	if a.err != nil {
		return settled{a.err.Error()}
	}
	return settled{}
}

// expect waits for another rank to dial, and plays along until it has gone.
func (r *rank) expect(v visit) error {
	a, err := r.begin(v)
	if err != nil {
		return err
	}
	r.work.Go(func() {
		select {
		case <-a.ctx.Done():
			a.finish(nil) // the director knows why nobody came
		case in := <-a.in:
			a.finish(r.playAlong(a, in))
		}
	})
	return nil
}

// receive hands a connection to whoever expects it.
func (r *rank) receive(in *dial.Incoming) {
	var h hello
	if err := json.Unmarshal(in.Hello, &h); err != nil {
		_ = in.Reject(errors.New("qualify: the hello is not understood; run the same psbench everywhere"))
		return
	}
	r.mu.Lock()
	a, c := r.acts[h.Serial], r.crowd
	r.mu.Unlock()
	switch {
	case h.Crowd && c != nil && c.plan.Serial == h.Serial:
		c.receive(in, h.From)
		return
	case !h.Crowd && a != nil && a.visit.To == r.cfg.Rank && a.visit.From == h.From:
		select {
		case a.in <- in:
			return
		default:
		}
	}
	_ = in.Reject(fmt.Errorf("qualify: rank %d does not expect rank %d now", r.cfg.Rank, h.From)) // the peer may be gone already
}

func (r *rank) playAlong(a *act, in *dial.Incoming) (err error) {
	s := &second{side: &side{r: r, peer: a.visit.From}}
	defer func() { err = errors.Join(err, s.close()) }()
	// The end of the act ends the handshake, too.
	stop := context.AfterFunc(a.ctx, func() { _ = in.Reject(context.Cause(a.ctx)) })
	var failed error
	conn, err := in.Finish(func(_ int, d rdma.Domain) rdma.EndpointConfig {
		var cfg rdma.EndpointConfig
		cfg, failed = s.attach(d)
		return cfg // without a queue it is refused
	}, nil)
	if !stop() && err == nil {
		_ = conn.Close()
		return context.Cause(a.ctx)
	}
	if err != nil {
		return errors.Join(failed, err)
	}
	if err := s.join(a.ctx, conn); err != nil {
		return err
	}
	_ = conn.Serve(a.ctx, s.answer) // how it went is what the other side says
	return nil
}

// duel dials the other rank and measures.
func (r *rank) duel(v visit) (*Outcome, error) {
	a, err := r.begin(v)
	if err != nil {
		return nil, err
	}
	out, err := r.measure(a)
	if err != nil && a.ctx.Err() != nil && !errors.Is(err, context.Cause(a.ctx)) {
		err = fmt.Errorf("%w (given up after %v)", err, r.plan.duelLimit())
	}
	a.finish(err)
	return out, err
}

func (r *rank) measure(a *act) (_ *Outcome, err error) {
	s := &side{r: r, peer: a.visit.To, first: true}
	defer func() { err = errors.Join(err, s.close()) }()
	word, err := json.Marshal(hello{Serial: a.visit.Serial, From: r.cfg.Rank})
	if err != nil {
		return nil, err
	}
	conn, _, err := r.host.Dial(a.ctx, a.visit.Addr, word, 1, func(_ int, d rdma.Domain) (rdma.EndpointConfig, error) { return s.attach(d) })
	if err != nil {
		return nil, err
	}
	if err := s.join(a.ctx, conn); err != nil {
		return nil, err
	}
	var theirs aim
	if err := conn.Call(a.ctx, peerAim, aim{s.region.Remote()}, &theirs); err != nil {
		return nil, err
	}
	s.link.Aim(theirs.Region)
	caps := conn.Domains[0].Caps()
	out := &Outcome{Transport: conn.Transport, Reason: conn.Reason, Device: caps.Device, NUMANode: caps.NUMANode, Load: report.Load()}
	m := meter{side: s, ctx: a.ctx, seed: a.visit.Seed}
	if err := m.latency(out, r.plan.Iterations); err != nil {
		return nil, fmt.Errorf("latency: %w", err)
	}
	for _, n := range r.plan.Sizes {
		w, err := m.writes(n, r.plan.Duration)
		if err != nil {
			return nil, fmt.Errorf("writes of %d bytes: %w", n, err)
		}
		out.Writes = append(out.Writes, w)
	}
	return out, nil
}

// meter plays phases with the peer.
type meter struct {
	*side
	ctx    context.Context
	seed   uint64
	phases uint64
}

// play is one phase at both ends, whose bytes must agree.
func (m *meter) play(kind string, n, iterations int, halves []time.Duration) (w Written, err error) {
	w = Written{Bytes: n, Iterations: iterations}
	m.phases++
	p := micro.Phase{Kind: kind, Bytes: n, Iterations: iterations, Seed: (m.seed + m.phases*0x9e3779b97f4a7c15) &^ (1 << 40)}
	if err := m.link.Prepare(p); err != nil {
		return w, err
	}
	if err := m.conn.Call(m.ctx, peerPhase, p, nil); err != nil {
		return w, err
	}
	if w.Took, w.CPUSeconds, err = m.link.Play(p, halves); err != nil {
		return w, err
	}
	var theirs result
	if err := m.conn.Call(m.ctx, peerResult, p, &theirs); err != nil {
		return w, err
	}
	w.CPUSeconds += theirs.CPUSeconds
	if w.Checksum = m.link.Checksum(p); w.Checksum != theirs.Checksum {
		return w, fmt.Errorf("qualify: the checksum is %08x here and %08x at rank %d: bytes were lost or changed on the way; look at the link's error counters", w.Checksum, theirs.Checksum, m.peer)
	}
	return w, nil
}

func (m *meter) latency(out *Outcome, iterations int) error {
	halves := make([]time.Duration, iterations)
	if _, err := m.play(micro.PhaseLatency, latencyBytes, max(iterations/10, 8), halves); err != nil {
		return err
	}
	w, err := m.play(micro.PhaseLatency, latencyBytes, iterations, halves)
	if err != nil {
		return err
	}
	h := &report.Histogram{}
	for _, d := range halves {
		h.Record(d)
	}
	out.Latency, out.PingPongs, out.Checksum = *h.Latency(), iterations, w.Checksum
	return nil
}

// writes grows the number of messages until they take about as long as asked
// for: nobody knows before how fast a pair is.
func (m *meter) writes(n int, long time.Duration) (Written, error) {
	iterations := 1
	for {
		w, err := m.play(micro.PhaseWrite, n, iterations, nil)
		if err != nil {
			return w, err
		}
		w.Took = max(w.Took, 1)
		if w.Took >= long/2 || iterations == maxIterations {
			return w, nil
		}
		next := float64(iterations) * float64(long) / float64(w.Took)
		iterations = min(max(int(next), iterations)+1, 256*iterations, maxIterations)
	}
}
