package chain

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"

	"psrt/bench/cable"
	"psrt/rdma/dial"
	"psrt/rdma/secure"
	"psrt/sched/coord/remote"
	"psrt/sched/place"
	"psrt/sched/replica"
	"psrt/sched/server"
	"psrt/sched/tree"
	"psrt/sched/usage"
	"psrt/tiers/table"
)

// serverOrder is what a server is told first.
type serverOrder struct {
	Config   Config
	Token    []byte
	ID       int
	Cable    int
	Store    string // where the store is
	Groups   int    // 0: a server alone, without chains
	Replicas int
}

// serverSays is its first word. After it any order asks for CPU time.
type serverSays struct {
	Err        string
	Addr       string // of a server alone
	Stream     string // where plain streams are counted
	CPUSeconds float64
}

// serveServer is a server's body.
func serveServer(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var o serverOrder
	if err := from.Decode(&o); err != nil {
		return fmt.Errorf("chain: no set-up on standard input: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &serving{order: &o, failed: make(chan error, 1)}
	says, err := s.start(ctx)
	defer s.running.Wait()
	defer cancel()
	if err != nil {
		says.Err = err.Error()
	}
	for {
		select {
		case err := <-s.failed:
			says.Err = err.Error()
		default:
		}
		_, says.CPUSeconds = usage.Process()
		if err := to.Encode(says); err != nil {
			return err
		}
		var ask struct{}
		if from.Decode(&ask) != nil {
			return nil // the station's end is the end
		}
	}
}

type serving struct {
	order   *serverOrder
	running sync.WaitGroup
	failed  chan error
}

func (c *Config) host(cable int) string {
	if c.Link == LinkVeth {
		return address(cable)
	}
	return "127.0.0.1"
}

func (s *serving) start(ctx context.Context) (says serverSays, err error) {
	o := s.order
	if o.Config.Link == LinkVeth {
		if err := o.Config.end(ctx, o.Cable); err != nil {
			return says, err
		}
	}
	listen := net.JoinHostPort(o.Config.host(o.Cable), "0")
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return says, err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	s.running.Go(func() { cable.ServeStreams(l) })
	says.Stream = l.Addr().String()
	host, err := dial.New(dial.Config{Transport: "tcp", Token: o.Token, Listen: listen})
	if err != nil {
		return says, err
	}
	context.AfterFunc(ctx, func() { host.Close() })
	if o.Groups == 0 {
		says.Addr, err = s.alone(ctx, host, listen)
		return says, err
	}
	store := remote.New(func(ctx context.Context) (net.Conn, error) { return secure.Dial(ctx, "tcp", o.Store, o.Token) })
	m, err := replica.New(replica.Config{
		ID: o.ID, Host: host, Listen: listen, Coord: store, Server: place.Server{Lanes: 1, Host: fmt.Sprintf("host%d", o.ID), Weight: 1},
		First: place.ChainsConfig{Groups: o.Groups, Replicas: o.Replicas}, FirstServers: servers,
		Open: func(seat replica.Seat) (replica.Group, error) {
			cfg, err := serverConfig(host)
			if err != nil {
				return nil, err
			}
			cfg.ID, cfg.Map = seat.Group, seat.Map.GroupMap()
			cfg.Chain = &server.ChainConfig{Self: seat.Self, Group: seat.Group, Dial: seat.Dial, OnReport: seat.OnReport}
			return server.New(cfg)
		},
	})
	if err != nil {
		return says, err
	}
	s.running.Go(func() { s.end(ctx, m.Run(ctx)) })
	return says, nil
}

// alone is a server without chains.
func (s *serving) alone(ctx context.Context, host *dial.Host, listen string) (addr string, err error) {
	cfg, err := serverConfig(host)
	if err != nil {
		return "", err
	}
	cfg.Listen = listen
	if cfg.Map, err = aloneMap(""); err != nil {
		return "", err
	}
	srv, err := server.New(cfg)
	if err != nil {
		return "", err
	}
	s.running.Go(func() { s.end(ctx, srv.Serve(ctx)) })
	return srv.Addr(), nil
}

func (s *serving) end(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.failed <- err
	}
}

func aloneMap(addr string) (*place.Map, error) {
	return place.New(1, place.DefaultSlots, []place.Server{{ID: 0, Weight: 1, Lanes: 1, Addr: addr}})
}

// workers of every server: one that pushes much, one that pulls and one that pushes a
// little.
const workers = 3

func serverConfig(host *dial.Host) (server.Config, error) {
	_, leaves := tree.Leaves(1 << 14)
	shares, err := tree.Shares(leaves, workers)
	if err != nil {
		return server.Config{}, err
	}
	merges, err := tree.Top(shares)
	return server.Config{Host: host, Workers: workers, Staleness: server.Async, Merges: merges, Seed: 1, Tables: []table.Spec{sums},
		Node: -1, ReconnectFor: patience, Watch: server.WatchOff}, err
}
