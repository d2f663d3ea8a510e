package fan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"psrt/bench/cable"
	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/verbs"
	"psrt/sched/place"
	"psrt/sched/server"
	"psrt/sched/usage"
	"psrt/tiers/table"
)

// serverOrder is what the server is told first.
type serverOrder struct {
	Config Config
	Token  []byte
}

// serverAsk is all further orders: what has it used? And, if Read is given, how
// fast can it read there?
type serverAsk struct {
	Read *rdma.RemoteRange
}

type serverSays struct {
	Err           string
	Addresses     map[string]string // by mode
	Stream        string            // where plain streams are counted
	Reads         string            // where bare reads begin, with verbs
	CPUSeconds    float64
	Retransmitted int64
	ReadRate      float64           // bytes/s
	Landed        map[string]uint64 // payload that has landed, by mode
	Nanos         int64             // when that was so, by this machine's clock
}

// serving is the server's process.
type serving struct {
	cfg    *Config
	token  []byte
	closes []func() error
	wg     sync.WaitGroup
	hosts  map[string]*dial.Host // by mode

	reads  *readEnd
	joined chan error // of reads
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
		says.Landed, says.Nanos = s.landed(), time.Now().UnixNano()
		if err := to.Encode(says); err != nil {
			return err
		}
		var ask serverAsk
		if from.Decode(&ask) != nil {
			return nil // the station's end is the end
		}
		if ask.Read != nil {
			if says.ReadRate, err = s.read(*ask.Read); err != nil {
				says.Err = err.Error()
			}
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
		d.Devices = dial.Devices{Devices: []string{device},
			Config: verbs.Config{Port: c.Port, PinGID: c.GIDIndex >= 0, GIDIndex: max(c.GIDIndex, 0), SpinMicros: c.SpinMicros}}
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
	s.wg.Go(func() { cable.ServeStreams(l) })
	says.Stream, says.Addresses, s.hosts = l.Addr().String(), map[string]string{}, map[string]*dial.Host{}
	if s.cfg.Transport == "verbs" {
		if says.Reads, err = s.listenReads(ctx, listen); err != nil {
			return says, err
		}
	}
	m, err := oneServer("")
	if err != nil {
		return says, err
	}
	for _, mode := range s.cfg.Modes {
		h, err := s.host(listen)
		if err != nil {
			return says, err
		}
		s.hosts[mode] = h
		srv, err := server.New(server.Config{ID: 0, Map: m, Host: h, Listen: listen, Workers: s.cfg.most() + 1, Staleness: server.Async,
			Seed: s.cfg.Seed, Tables: []table.Spec{probeTable()}, Dense: denseOf(s.cfg.floats()), Node: -1, FanIn: modes[mode], Watch: server.WatchAuto})
		if err != nil {
			return says, err
		}
		says.Addresses[mode] = srv.Addr()
		s.wg.Go(func() { _ = srv.Serve(ctx) }) // workers see their end of a failure
	}
	return says, nil
}

// landed is what has arrived at each mode's server.
func (s *serving) landed() map[string]uint64 {
	sums := map[string]uint64{}
	for mode, h := range s.hosts {
		for _, d := range h.Domains() {
			sums[mode] += d.Stats().ReceivedBytes
		}
	}
	return sums
}

func (s *serving) host(listen string) (*dial.Host, error) {
	d := s.cfg.dial(s.token, s.cfg.ServerDevice)
	d.Listen = listen
	h, err := dial.New(d)
	if err == nil {
		s.closes = append(s.closes, h.Close)
	}
	return h, err
}

// listenReads waits for the station's end of bare reads.
func (s *serving) listenReads(ctx context.Context, listen string) (string, error) {
	h, err := s.host(listen)
	if err != nil {
		return "", err
	}
	l, err := h.Listen(listen)
	if err != nil {
		return "", err
	}
	s.reads, s.joined = &readEnd{}, make(chan error, 1)
	s.closes = append(s.closes, func() error { return s.reads.close() })
	s.wg.Go(func() { s.joined <- s.reads.accept(ctx, l) })
	return l.Addr(), nil
}

func (s *serving) read(from rdma.RemoteRange) (float64, error) {
	if s.reads == nil {
		return 0, errors.New("fan-in: bare reads are for verbs alone")
	}
	if s.joined != nil {
		select {
		case err := <-s.joined:
			if err != nil {
				return 0, err
			}
		case <-time.After(patience):
			return 0, errors.New("fan-in: the station's end of bare reads has not come")
		}
		s.joined = nil
	}
	return s.reads.read(from, linkTime)
}

// oneServer is the map of a single server of one lane.
func oneServer(addr string) (*place.Map, error) {
	return place.New(1, place.DefaultSlots, []place.Server{{ID: 0, Weight: 1, Lanes: 1, Addr: addr}})
}
