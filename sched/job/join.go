package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"psrt/rdma/dial"
	"psrt/rdma/secure"
	"psrt/sched/coord"
	"psrt/sched/coord/remote"
	"psrt/sched/rendezvous"
	"psrt/sched/train"
)

// Port is where the coordinator listens; 0 for a unix socket.
func (h *Hosted) Port() int {
	if a, ok := h.server.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// routeTo is an address to listen on that the others can reach: the one from
// which this machine reaches the coordinator. No packet is sent.
func routeTo(network, coordinator string) string {
	if network == "tcp" {
		if c, err := net.Dial("udp", coordinator); err == nil {
			defer c.Close()
			return net.JoinHostPort(c.LocalAddr().(*net.UDPAddr).IP.String(), "0")
		}
	}
	return "127.0.0.1:0"
}

// splitAddr parses "unix:/path", "tcp:host:port" and "host:port".
func splitAddr(addr string) (network, address string) {
	if a, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", a
	}
	return "tcp", strings.TrimPrefix(addr, "tcp:")
}

// HostCoordinator keeps the coordinator of a job whose ranks were started one
// by one; rank 0 does it. Close ends it.
func HostCoordinator(ctx context.Context, addr string, token []byte, j *train.Job, sc StoreConfig) (*Hosted, error) {
	network, address := splitAddr(addr)
	listener, err := secure.Listen(network, address, token)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; or rank 0 runs there already: start every rank once", err)
	}
	if err != nil {
		return nil, fmt.Errorf("job: the coordinator cannot listen on %s: %w", addr, err)
	}
	c, err := openStore(ctx, sc, token, true)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	refused := refusals(listener, sc.Note)
	server := remote.Serve(listener, c)
	err = putWish(ctx, c, keepersFor(j, &sc), &sc)
	if err == nil {
		err = publish(ctx, c, j, sc.Durable())
	}
	if err != nil {
		return nil, errors.Join(err, server.Close(), c.Close())
	}
	return &Hosted{store: c, server: server, refused: refused, job: j}, nil
}

// refusals has a coordinator's listener tell of strangers; note may be nil.
func refusals(l *secure.Listener, note func(line string)) *dial.Refusals {
	r := dial.NewRefusals(func(line string) {
		if note != nil {
			note("the coordinator has " + line)
		}
	})
	l.OnReject(r.OnStranger)
	l.OnProve(r.OnProve)
	return r
}

// putWish says who is to keep the store.
func putWish(ctx context.Context, c coord.Coordinator, wish *keepersWish, sc *StoreConfig) error {
	switch {
	case wish != nil:
		b, err := json.Marshal(wish)
		if err == nil {
			_, err = c.Put(ctx, keyKeepers, b, 0)
		}
		return err
	case sc.Ranks && !sc.Durable():
		_, err := c.Put(ctx, keyKeeper, []byte(rank0), 0)
		return err
	}
	return nil
}

// Hosted is a coordinator in this process.
type Hosted struct {
	store   coord.Coordinator
	server  *remote.Server
	refused *dial.Refusals
	job     *train.Job
	handed  atomic.Bool // others keep it now
}

// handOver has who comes from here on find another store.
func (h *Hosted) handOver(c coord.Coordinator) {
	h.server.Before(c)
	h.handed.Store(true)
}

// Linger waits until every rank has said that it needs the coordinator no
// more. Rank 0 calls it with what became of its own part: where another rank
// aborted the job the rest shall learn why, those too that are still starting.
func (h *Hosted) Linger(err error) {
	var aborted *coord.AbortError
	var everybodys *rendezvous.UnreachableError // they have it from the same table
	if h.handed.Load() || err != nil && !errors.As(err, &aborted) && !errors.As(err, &everybodys) {
		return
	}
	if errors.As(err, &everybodys) {
		err = nil
	}
	awaitEnds(h.store, h.job, err)
}

// Close ends the coordinator.
func (h *Hosted) Close() error {
	defer h.refused.Close()
	return errors.Join(h.server.Close(), h.store.Close())
}

// JoinAndRun connects to the coordinator, which may still be starting, and
// runs the rank. A server that knows where the job's etcd is asks it itself.
func JoinAndRun(ctx context.Context, addr string, cfg RankConfig) (*train.Result, error) {
	if cfg.JoinTimeout == 0 {
		cfg.JoinTimeout = time.Minute
	}
	to := waysTo(addr, cfg.Token)
	network, address := splitAddr(to.addrs[0])
	cfg.met = addr
	if cfg.Store.Durable() {
		return runBeside(ctx, routeTo(network, address), cfg)
	}
	dialing, cancel := context.WithTimeout(ctx, cfg.JoinTimeout)
	defer cancel()
	for {
		c, err := remote.Dial(dialing, to.dial)
		if err == nil {
			defer c.Close()
			cfg.Coord = c
			if cfg.near = routeTo(network, address); cfg.Listen == "" && !cfg.Preflight {
				cfg.Listen = cfg.near
			}
			return RunRank(ctx, cfg)
		}
		if errors.Is(err, secure.ErrToken) {
			return nil, &train.InputError{Err: fmt.Errorf("job: rank %d and the coordinator at %s hold different tokens; give every rank the same --token-file, and check that no other job listens there", cfg.Rank, addr)}
		}
		select {
		case <-dialing.Done():
			return nil, fmt.Errorf("job: rank %d cannot reach the coordinator at %s within %v: %w; start rank 0 first or check --coordinator and --token-file",
				cfg.Rank, addr, cfg.JoinTimeout, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// runBeside runs a server rank with an etcd connection of its own.
func runBeside(ctx context.Context, near string, cfg RankConfig) (*train.Result, error) {
	opening, cancel := context.WithTimeout(ctx, cfg.JoinTimeout)
	defer cancel()
	c, err := openStore(opening, cfg.Store, cfg.Token, false)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	cfg.Coord, cfg.near = c, near
	if cfg.Listen == "" && !cfg.Preflight {
		cfg.Listen = near
	}
	return RunRank(ctx, cfg)
}
