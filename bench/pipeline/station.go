package pipeline

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"psrt/bench/cable"
	"psrt/bench/report"
	"psrt/rdma/dial"
	"psrt/sched/server"
)

// The two ends of the cable, and what either holds before it drops.
const (
	stationAddress = "10.84.1.1"
	serverAddress  = "10.84.1.2"
	queueBytes     = 512 << 10
)

// ErrNoLink: this machine, or this user, cannot have a link of its own.
var ErrNoLink = cable.ErrNoLink

// stationSays is the only word of the process in which lines run over a link.
type stationSays struct {
	Err   string
	Rows  []report.Row
	Notes []string
}

// serverOrder is what the server's process is told, serverSays what it answers.
type serverOrder struct {
	RateBits int64
	Token    []byte
}

type serverSays struct{ Err, Addr string }

// ServePart is the body of another process of a run, which Config.Part starts.
func ServePart(role string, in io.Reader, out io.Writer) error {
	return cable.Serve(map[string]cable.Part{cable.Station: serveStation, cable.Server: serveServer}, role, in, out)
}

// linked is what a run's station finds.
func linked(ctx context.Context, cfg *Config) (found *stationSays, err error) {
	err = cable.Run(ctx, "pipeline", cable.Veth, cfg.Part, cfg, func(says *stationSays) (bool, error) {
		found = says
		if says.Err != "" {
			return true, errors.New(says.Err)
		}
		return true, nil
	})
	return found, err
}

func serveStation(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var cfg Config
	if err := from.Decode(&cfg); err != nil {
		return fmt.Errorf("pipeline: no set-up on standard input: %w", err)
	}
	rows, notes, err := station(ctx, &cfg)
	if err != nil {
		return to.Encode(stationSays{Err: err.Error()})
	}
	return to.Encode(stationSays{Rows: rows, Notes: notes})
}

// station lays the cable to a server, and measures.
func station(ctx context.Context, cfg *Config) (rows []report.Row, notes []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := cable.Batch(ctx, "ip", "link set lo up"); err != nil {
		return nil, nil, err
	}
	other, err := cable.Start(ctx, cfg.Part, cable.Server, cable.Inside(cable.Veth))
	if err != nil {
		return nil, nil, err
	}
	defer other.Close(cancel)
	const port = "port"
	if err := errors.Join(cable.Lay(ctx, port, stationAddress, other.PID()), cable.RateHost(ctx, port, cfg.RateBits, queueBytes)); err != nil {
		return nil, nil, err
	}
	token := make([]byte, 32)
	_, _ = rand.Read(token) // never fails
	var says serverSays
	if err := errors.Join(other.Tell(serverOrder{cfg.RateBits, token}), other.Hear(&says)); err != nil {
		return nil, nil, err
	}
	if says.Err != "" {
		return nil, nil, fmt.Errorf("server: %s", says.Err)
	}
	h, err := dial.New(dial.Config{Transport: "tcp", Token: token, Cover: dial.CoverNone})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	return overLink(ctx, cfg, h, says.Addr)
}

func serveServer(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var o serverOrder
	if err := from.Decode(&o); err != nil {
		return fmt.Errorf("pipeline: no set-up on standard input: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listen := net.JoinHostPort(serverAddress, "0")
	says, over := serverSays{}, (<-chan struct{})(nil)
	h, err := dial.New(dial.Config{Transport: "tcp", Token: o.Token, Listen: listen, Cover: dial.CoverNone})
	if err == nil {
		defer h.Close()
		err = errors.Join(cable.End(ctx, serverAddress, stationAddress), cable.RateEnd(ctx, o.RateBits, queueBytes))
	}
	if err == nil {
		says.Addr, over, err = serve(ctx, h, listen, 1, server.Async)
	}
	if err != nil {
		return to.Encode(serverSays{Err: err.Error()})
	}
	if err := to.Encode(says); err != nil {
		return err
	}
	_ = from.Decode(&struct{}{}) // the station's end is the end
	cancel()
	<-over
	return nil
}
