package fan

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"

	"psrt/rdma/dial"
	"psrt/rdma/verbs"
	"psrt/sched/place"
	"psrt/sched/server"
	"psrt/sched/usage"
	"psrt/tiers/table"
)

// serverOrder is what the server is told first; after it any order asks for
// what it has used.
type serverOrder struct {
	Config Config
	Token  []byte
}

type serverSays struct {
	Err           string
	Addresses     map[string]string // by mode
	Stream        string
	CPUSeconds    float64
	Retransmitted int64
}

// serving is the server's process.
type serving struct {
	cfg    *Config
	token  []byte
	closes []func() error
	wg     sync.WaitGroup
}

// serveServer is its body.
func serveServer(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var o serverOrder
	if err := from.Decode(&o); err != nil {
		return fmt.Errorf("fan-in: no set-up on standard input: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &serving{cfg: &o.Config, token: o.Token}
	says, err := s.start(ctx)
	defer s.wg.Wait()
	defer s.close()
	defer cancel()
	if err != nil {
		says.Err = err.Error()
	}
	for {
		_, says.CPUSeconds = usage.Process()
		says.Retransmitted = tcpRetransmitted("/proc")
		if err := to.Encode(says); err != nil {
			return err
		}
		var next struct{}
		if from.Decode(&next) != nil {
			return nil // the station's end is the end
		}
	}
}

func (s *serving) close() {
	for i := len(s.closes) - 1; i >= 0; i-- {
		_ = s.closes[i]() // the process ends
	}
}

// host is what the servers' address is on.
func (c *Config) host() string {
	if c.Link == LinkVeth {
		return serverAddress
	}
	return "127.0.0.1"
}

// dial is how a process reaches others; device is its own.
func (c *Config) dial(token []byte, device string) dial.Config {
	d := dial.Config{Transport: c.Transport, Token: token}
	if c.Transport == "verbs" {
		d.Devices = dial.Devices{Devices: []string{device}, Config: verbs.Config{Port: c.Port, PinGID: c.GIDIndex >= 0, GIDIndex: max(c.GIDIndex, 0)}}
	}
	return d
}

func (s *serving) start(ctx context.Context) (says serverSays, err error) {
	if s.cfg.Link == LinkVeth {
		if err := end(ctx, serverAddress, serverGateway, s.cfg.Congestion); err != nil {
			return says, err
		}
	}
	listen := net.JoinHostPort(s.cfg.host(), "0")
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return says, err
	}
	s.closes = append(s.closes, l.Close)
	s.wg.Go(func() { serveStreams(l) })
	says.Stream, says.Addresses = l.Addr().String(), map[string]string{}
	m, err := oneServer("")
	if err != nil {
		return says, err
	}
	for _, mode := range s.cfg.Modes {
		d := s.cfg.dial(s.token, s.cfg.ServerDevice)
		d.Listen = listen
		h, err := dial.New(d)
		if err != nil {
			return says, err
		}
		s.closes = append(s.closes, h.Close)
		srv, err := server.New(server.Config{ID: 0, Map: m, Host: h, Listen: listen, Workers: s.cfg.most() + 1, Staleness: server.Async,
			Seed: s.cfg.Seed, Tables: []table.Spec{probeTable()}, Dense: denseOf(s.cfg.floats()), Node: -1, FanIn: modes[mode]})
		if err != nil {
			return says, err
		}
		says.Addresses[mode] = srv.Addr()
		s.wg.Go(func() { _ = srv.Serve(ctx) }) // workers see their end of a failure
	}
	return says, nil
}

// oneServer is the map of a single server of one lane.
func oneServer(addr string) (*place.Map, error) {
	return place.New(1, place.DefaultSlots, []place.Server{{ID: 0, Weight: 1, Lanes: 1, Addr: addr}})
}
