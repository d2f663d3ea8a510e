package whole

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"

	"psrt/bench/cable"
	"psrt/bench/rival"
	"psrt/rdma/dial"
	"psrt/rdma/secure"
	"psrt/sched/coord/remote"
	"psrt/sched/job"
	"psrt/sched/train/model"
	"psrt/tiers/accessor"
)

// serverOrder is first about the link, and then about one turn each.
type serverOrder struct {
	Config *Config
	Model  model.Spec
	Token  []byte
	Store  string // of a turn of the trainer: where its ranks meet
	World  int    // likewise: how many they are
	Rival  bool   // a turn of the rival: an empty table
	// Traffic, if not 0, is a turn of the link's bytes alone: so many each way a step.
	Traffic int64
}

// serverSays answers an order; that of a turn of the trainer when it is over.
type serverSays struct {
	Err    string
	Addr   string // of the rival's table, or where bytes are exchanged
	Stream string // where plain streams are counted
}

// serveServer is the server's body.
func serveServer(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var o serverOrder
	if err := from.Decode(&o); err != nil || o.Config == nil {
		return errors.Join(fmt.Errorf("whole: no set-up on standard input"), err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &serving{cfg: o.Config, spec: o.Model, token: o.Token}
	defer s.running.Wait()
	defer cancel()
	says, err := s.begin(ctx)
	for {
		if err != nil {
			says = serverSays{Err: err.Error()}
		}
		if err := to.Encode(says); err != nil {
			return err
		}
		var o serverOrder
		if from.Decode(&o) != nil {
			return nil // the station's end is the end
		}
		says = serverSays{}
		switch {
		case o.Rival:
			says.Addr, err = s.rival(ctx)
		case o.Traffic > 0:
			says.Addr, err = s.traffic(ctx, o.Traffic)
		default:
			err = s.rank(ctx, o.Store, o.World)
		}
	}
}

type serving struct {
	cfg     *Config
	spec    model.Spec
	token   []byte
	running sync.WaitGroup
}

// begin sets up this end of the cable.
func (s *serving) begin(ctx context.Context) (says serverSays, err error) {
	if s.cfg.Link == cable.Veth {
		if err := errors.Join(cable.End(ctx, serverAddress, stationAddress), cable.RateEnd(ctx, s.cfg.RateBits, s.cfg.QueueBytes)); err != nil {
			return says, err
		}
	}
	l, err := s.listen(ctx)
	if err != nil {
		return says, err
	}
	s.running.Go(func() { cable.ServeStreams(l) })
	return serverSays{Stream: l.Addr().String()}, nil
}

func (s *serving) listen(ctx context.Context) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(s.cfg.host(serverAddress), "0"))
	if err == nil {
		context.AfterFunc(ctx, func() { l.Close() })
	}
	return l, err
}

// rival serves one worker an empty table, whose rows are born as the trainer's are.
func (s *serving) rival(ctx context.Context) (string, error) {
	m, err := model.New(s.spec)
	if err != nil {
		return "", err
	}
	acc, err := accessor.New(rowsOf(m), s.cfg.Seed)
	if err != nil {
		return "", err
	}
	l, err := s.listen(ctx)
	if err != nil {
		return "", err
	}
	t := rival.NewTable(m.RowDim(), rate, int(s.cfg.Vocab))
	t.Born = acc.Born
	s.running.Go(func() {
		conn, err := l.Accept()
		l.Close() // one worker is all there is
		if err != nil {
			return
		}
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		_ = t.Serve(conn) // the worker sees that it ended
		conn.Close()
	})
	return l.Addr().String(), nil
}

// rank is a turn of the trainer: the job's server.
func (s *serving) rank(ctx context.Context, store string, world int) error {
	c := remote.New(func(ctx context.Context) (net.Conn, error) { return secure.Dial(ctx, "tcp", store, s.token) })
	defer c.Close()
	_, err := job.RunRank(ctx, job.RankConfig{Rank: 0, World: world, Coord: c, Token: s.token, Transport: "tcp", Cover: dial.CoverNone,
		Listen: net.JoinHostPort(s.cfg.host(serverAddress), "0"), Node: -1})
	return err
}

// The two ends of the cable.
const (
	stationAddress = "10.83.1.1"
	serverAddress  = "10.83.1.2"
)

// host is an end's address, which is this machine's without a cable.
func (c *Config) host(end string) string {
	if c.Link == cable.Veth {
		return end
	}
	return "127.0.0.1"
}
