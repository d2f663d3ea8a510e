package micro

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/bench/child"
	"psrt/bench/report"
)

// Run measures one suite over one transport. The caller adds to the report who
// it is: program and commit.
func Run(ctx context.Context, cfg Config) (_ *report.Report, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.budget(),
		fmt.Errorf("micro: not finished within %s; give fewer sizes or iterations", cfg.budget()))
	defer cancel()
	p, err := child.Start(ctx, cfg.Peer)
	if err != nil {
		return nil, err
	}
	r := &runner{cfg: cfg, peer: p}
	defer func() {
		p.Close(cancel)
		err = errors.Join(err, r.close())
		if err != nil && ctx.Err() != nil && context.Cause(ctx) != context.Canceled {
			err = context.Cause(ctx)
		}
	}()
	if err := r.join(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { r.st.stopped.Store(true) })
	defer stop()
	out := &report.Report{
		Version: report.Version, Suite: cfg.Suite, Transport: r.transport(),
		Time: time.Now(), Seed: cfg.Seed, Machine: report.ThisMachine(), Notes: r.notes(),
	}
	if r.st.caps.Device != "" {
		out.Machine.Device = r.st.caps.Device
	}
	out.Machine.NUMANode = r.st.caps.NUMANode
	for _, n := range cfg.Sizes {
		for _, k := range r.kinds(n) {
			row, err := r.row(ctx, k, n)
			if err != nil {
				return nil, fmt.Errorf("%s of %d bytes: %w", k.op, n, err)
			}
			out.Rows = append(out.Rows, row)
		}
	}
	return out, nil
}

// runner is the measuring side.
type runner struct {
	cfg    Config
	peer   *child.Child
	st     *station
	bulk   *bulk
	phases uint64 // so far, so that no two move the same bytes
	halves []time.Duration
}

// transport as reports call it: TLS is not another one to those that use it.
func (r *runner) transport() string {
	if r.cfg.Transport == "tls" {
		return r.cfg.Transport
	}
	return r.st.caps.Transport
}

// join is our side of the exchange before the first phase.
func (r *runner) join() error {
	s := setup{Transport: r.cfg.PeerTransport, Bytes: regionBytes(r.cfg.Sizes), Nonce: mix(r.cfg.Seed ^ uint64(time.Now().UnixNano()))}
	var err error
	mine := s
	mine.Transport = r.cfg.Transport
	if r.st, err = open(r.cfg.Open, mine, true); err != nil {
		return err
	}
	if r.st.caps.Mapped && r.cfg.Suite == SuiteBandwidth {
		if r.bulk, err = newBulk(r.cfg.BulkBytes); err != nil {
			return err
		}
	}
	if err := r.peer.Tell(s); err != nil {
		return err
	}
	var theirs greeting
	if err := r.heard(&theirs); err != nil {
		return err
	}
	if err := r.peer.Tell(r.st.greeting()); err != nil {
		return err
	}
	if theirs.RawAddress != "" {
		if r.st.raw, err = rawDial(s.Transport, theirs.RawAddress, theirs.RawPeer, s.Nonce, r.st.stopped.Load); err != nil {
			return err
		}
	}
	if err := r.st.connect(theirs); err != nil {
		return err
	}
	return r.heard(&greeting{})
}

func (r *runner) heard(g *greeting) error {
	if err := r.peer.Hear(g); err != nil {
		return err
	}
	if g.Err != "" {
		return fmt.Errorf("micro: peer: %s", g.Err)
	}
	return nil
}

func (r *runner) close() error {
	var errs []error
	if r.st != nil {
		errs = append(errs, r.st.close())
	}
	if r.bulk != nil {
		errs = append(errs, r.bulk.close())
	}
	return errors.Join(errs...)
}

// run plays one phase with the peer; the CPU seconds are of both.
func (r *runner) run(ctx context.Context, kind string, n, iterations int) (played, uint32, error) {
	r.phases++
	p := phase{Kind: kind, Bytes: n, Iterations: iterations, Seed: mix(r.cfg.Seed+r.phases) &^ (1 << 40)}
	if err := context.Cause(ctx); err != nil {
		return played{}, 0, err
	}
	r.st.prepare(p)
	if err := r.peer.Tell(p); err != nil {
		return played{}, 0, err
	}
	var a answer
	if err := r.answered(&a); err != nil {
		return played{}, 0, err
	}
	result, err := r.st.play(p, r.halves)
	if err != nil {
		return played{}, 0, err
	}
	if err := r.peer.Tell(true); err != nil {
		return played{}, 0, err
	}
	if err := r.answered(&a); err != nil {
		return played{}, 0, err
	}
	sum := r.st.checksum(p)
	if sum != a.Checksum {
		return played{}, 0, fmt.Errorf("micro: checksum is %08x here and %08x at the peer: the transport lost or changed bytes", sum, a.Checksum)
	}
	result.cpu += a.CPUSeconds
	return result, sum, nil
}

func (r *runner) answered(a *answer) error {
	if err := r.peer.Hear(a); err != nil {
		return err
	}
	if a.Err != "" {
		return fmt.Errorf("micro: peer: %s", a.Err)
	}
	return nil
}
