package qualify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
	"psrt/rdma/secure"
)

// RankConfig is one rank's own part.
type RankConfig struct {
	Job
	// Listen is where other ranks dial this one, "host:port" or "unix:PATH";
	// empty: at the address from which this machine reaches the coordinator.
	Listen string
	// Dial has the transport and its devices. Token and Listen are filled in.
	Dial        dial.Config
	JoinTimeout time.Duration
}

// ErrDirector: the director is gone, or has not been heard of for too long.
var ErrDirector = errors.New("qualify: the director is gone")

// lastWord is how long a rank that was told to end stays, so that the director,
// who was told so too, ends first.
const lastWord = 500 * time.Millisecond

// rank serves the director's calls.
type rank struct {
	cfg   RankConfig
	plan  Plan
	host  *dial.Host
	arena *mem.Arena
	buf   []byte
	heard atomic.Int64 // when the director last called, nanoseconds since 1970
	end   chan struct{}
	ended sync.Once
	work  sync.WaitGroup

	mu      sync.Mutex
	regions map[rdma.Domain]rdma.Region
	acts    map[uint64]*act // by serial
	crowd   *crowd
}

// RunRank takes part until the director says that all is done.
func RunRank(ctx context.Context, cfg RankConfig) (err error) {
	if err := cfg.Job.Check(); err != nil {
		return err
	}
	if cfg.Listen == "" {
		cfg.Listen = routeTo(cfg.Coordinator)
	}
	// A control connection needs a transport, and moves no bytes by it.
	control, err := dial.New(dial.Config{Token: cfg.Token, Transports: controlOnly()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, control.Close()) }()
	cfg.Dial.Token = cfg.Token
	r := &rank{cfg: cfg, end: make(chan struct{}), regions: map[rdma.Domain]rdma.Region{}, acts: map[uint64]*act{}}
	conn, err := r.join(ctx, control)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r.heard.Store(time.Now().UnixNano())
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(ctx, cancel) })
	defer func() {
		cancel(nil)
		watching.Wait()
		err = errors.Join(err, r.close())
	}()
	err = conn.Serve(ctx, r.answer)
	select {
	case <-r.end:
		return nil
	default:
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		// A launcher that ends all ranks together has a reason, such as a rank
		// that died: the director shall not take the others' end for theirs.
		select {
		case <-conn.Done():
		case <-time.After(lastWord):
		}
		return cause
	}
	return fmt.Errorf("%w: %w; look at what rank 0 says", ErrDirector, err)
}

// join greets the director, which may start later than this rank. The listener
// must stand before that; what it is to do is known after.
func (r *rank) join(ctx context.Context, control *dial.Host) (*dial.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.JoinTimeout)
	defer cancel()
	host, err := dial.New(r.cfg.Dial)
	if err != nil {
		return nil, err
	}
	l, err := host.Listen(r.cfg.Listen)
	if err != nil {
		return nil, errors.Join(err, host.Close())
	}
	g := greeting{Protocol: protocol, Rank: r.cfg.Rank, World: r.cfg.World, Listen: l.Addr(), Facts: localFacts(l.Addr(), usualRegion)}
	word, err := json.Marshal(g)
	if err != nil {
		return nil, errors.Join(err, host.Close())
	}
	for {
		conn, reply, err := control.Dial(ctx, r.cfg.Coordinator, word, 0, nil)
		if err == nil {
			if err = json.Unmarshal(reply, &r.plan); err == nil {
				err = r.plan.Check()
			}
			if err == nil {
				r.host = host
				err = r.open(l)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("qualify: rank %d: %w", r.cfg.Rank, err), host.Close())
			}
			return conn, nil
		}
		switch {
		case errors.Is(err, secure.ErrToken):
			err = &inputError{fmt.Errorf("qualify: rank %d and the director at %s hold different tokens; give every rank the same --token-file, and check that no other job listens there", r.cfg.Rank, r.cfg.Coordinator)}
			return nil, errors.Join(err, host.Close())
		case errors.Is(err, dial.ErrRefused), errors.Is(err, dial.ErrVersion):
			return nil, errors.Join(err, host.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("qualify: rank %d cannot reach the director at %s within %v: %w; start rank 0 first, or check --coordinator: an address of rank 0's host, and a port that is free and not filtered",
				r.cfg.Rank, r.cfg.Coordinator, r.cfg.JoinTimeout, err), host.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// usualRegion is what facts about limits are asked for before the plan is
// known: the region for writes of 1 MiB.
const usualRegion = 16 << 20

// open makes this rank's memory and begins to take connections.
func (r *rank) open(l *dial.Listener) (err error) {
	size := r.plan.regionBytes()
	if r.arena, err = mem.New(mem.Config{Size: size, Node: -1, Purpose: "psbench qualify", Share: true, Prefault: true}); err != nil {
		return err
	}
	r.buf = r.arena.Bytes()[:size]
	r.work.Go(func() {
		for {
			in, err := l.Accept(context.Background()) // ends when the host is closed
			if err != nil {
				return
			}
			r.work.Go(func() { r.receive(in) })
		}
	})
	return nil
}

// close gives everything back, children first.
func (r *rank) close() error {
	r.mu.Lock()
	acts, c := r.acts, r.crowd
	r.acts, r.crowd = nil, nil
	r.mu.Unlock()
	for _, a := range acts {
		a.cancel(rdma.ErrClosed)
		<-a.done
	}
	if c != nil {
		c.close()
	}
	err := r.host.Close() // domains close their regions
	r.work.Wait()
	return errors.Join(err, r.arena.Close())
}

// region is this rank's memory as d's peers see it, registered once.
func (r *rank) region(d rdma.Domain) (rdma.Region, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reg := r.regions[d]; reg != nil {
		return reg, nil
	}
	reg, err := d.Register(r.arena, rdma.AccessAll, "psbench qualify")
	if err == nil {
		r.regions[d] = reg
	}
	return reg, err
}

// watch gives up when the director has been silent for too long: it calls
// several times in every timeout.
func (r *rank) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	patience := 3 * r.plan.Timeout
	for {
		silent := time.Since(time.Unix(0, r.heard.Load()))
		if silent > patience {
			cancel(fmt.Errorf("%w: nothing heard of it for %v: rank 0 is stopped, or its machine is", ErrDirector, silent.Round(time.Second)))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(r.plan.Timeout / 4):
		}
	}
}

// answer is one of the director's calls.
func (r *rank) answer(ctx context.Context, method string, body json.RawMessage) (any, error) {
	r.heard.Store(time.Now().UnixNano())
	var v visit
	var p crowdPlan
	decode := func(into any) error { return json.Unmarshal(body, into) }
	switch method {
	case callAlive:
		return nil, nil
	case callExpect:
		if err := decode(&v); err != nil {
			return nil, err
		}
		return nil, r.expect(v)
	case callDuel:
		if err := decode(&v); err != nil {
			return nil, err
		}
		return r.duel(v)
	case callSettle:
		if err := decode(&v); err != nil {
			return nil, err
		}
		return r.settle(v), nil
	case callGather, callMeet, callWrite, callCheck:
		if err := decode(&p); err != nil {
			return nil, err
		}
		return r.together(ctx, method, p)
	case callEnd:
		r.ended.Do(func() { close(r.end) })
		return nil, nil
	}
	return nil, fmt.Errorf("qualify: the director asks for %q; run the same psbench everywhere", method)
}
