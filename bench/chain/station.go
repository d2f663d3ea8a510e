package chain

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"psrt/bench/cable"
	"psrt/bench/child"
	"psrt/bench/report"
	"psrt/rdma/dial"
)

// ServePart is the body of another process of a run, which Config.Part starts.
func ServePart(role string, in io.Reader, out io.Writer) error {
	return cable.Serve(map[string]cable.Part{cable.Station: serveStation, cable.Server: serveServer, cable.Switch: serveSwitch}, role, in, out)
}

// stationSays is one of these at a time; the last has Done or Err.
type stationSays struct {
	Err   string
	Step  string // what it is about to do, for people
	Rows  []report.Row
	Notes []string
	Done  bool
}

// station is the workers' process.
type station struct {
	cfg     *Config
	token   []byte
	network *child.Child // the switch; nil without
	cables  int
	host    *dial.Host
	say     func(stationSays) error
}

func serveStation(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var cfg Config
	if err := from.Decode(&cfg); err != nil {
		return fmt.Errorf("chain: no set-up on standard input: %w", err)
	}
	st := &station{cfg: &cfg, token: make([]byte, 32), say: func(m stationSays) error { return to.Encode(m) }}
	_, _ = rand.Read(st.token)
	last := stationSays{Done: true}
	if err := st.run(ctx); err != nil {
		last = stationSays{Err: err.Error()}
	}
	return to.Encode(last)
}

func (st *station) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if st.cfg.Link == LinkVeth {
		if st.network, err = cable.Start(ctx, st.cfg.Part, cable.Switch, cable.Inside(st.cfg.Link)); err != nil {
			return err
		}
		defer st.network.Close(cancel)
		if _, err := st.lay(os.Getpid()); err != nil {
			return err
		}
		if err := st.cfg.end(ctx, 1); err != nil {
			return err
		}
	}
	if st.host, err = dial.New(dial.Config{Transport: "tcp", Token: st.token}); err != nil {
		return err
	}
	defer st.host.Close()
	if err := st.say(stationSays{Notes: []string{"TCP's congestion control: " + cable.Congestion()}}); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{Goodput, st.goodput}, {Failover, st.failover}, {Full, st.full}, {Move, st.move}} {
		if !slices.Contains(st.cfg.Parts, part.name) {
			continue
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func (st *station) step(format string, args ...any) error {
	return st.say(stationSays{Step: fmt.Sprintf(format, args...)})
}

// address is the station's own.
func (st *station) address() string { return st.cfg.host(1) }

// lay has the switch lay a cable to a process; it returns the cable's number.
func (st *station) lay(pid int) (cable int, err error) {
	if st.network == nil {
		return 0, nil
	}
	if st.cables++; st.cables > maxCables {
		return 0, fmt.Errorf("chain: more than %d processes: fewer rounds", maxCables)
	}
	var says cableSays
	if err := errors.Join(st.network.Tell(cableOrder{*st.cfg, st.cables, pid}), st.network.Hear(&says)); err != nil {
		return 0, fmt.Errorf("chain: switch: %w", err)
	}
	if says.Err != "" {
		return 0, errors.New(says.Err)
	}
	return st.cables, nil
}
