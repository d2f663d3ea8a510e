package startup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"psrt/bench/cable"
	"psrt/bench/child"
)

// ServePart is the body of another process of a run, which Config.Part starts.
func ServePart(role string, in io.Reader, out io.Writer) error {
	return cable.Serve(map[string]cable.Part{cable.Station: serveStation, cable.Server: serveHost}, role, in, out)
}

// stationSays is one of these at a time; the last has Done or Err.
type stationSays struct {
	Err  string
	Of   *said // of a round
	Done bool
}

// A host's address, and the station's at the other end of its cable.
func address(host int) string { return fmt.Sprintf("10.78.%d.2", host) }
func gateway(host int) string { return fmt.Sprintf("10.78.%d.1", host) }

// coordinatorPort is of the job's rank 0, on a host where nothing else listens.
const coordinatorPort = 7000

// hostOrder has a host set itself up (no Args), or run a rank.
type hostOrder struct {
	Host int
	Psrt child.Command
	Args []string
}

// serveStation is the switch between the hosts, and tells them what to run.
func serveStation(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var cfg Config
	if err := from.Decode(&cfg); err != nil {
		return fmt.Errorf("start: no set-up on standard input: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { // whoever started this one says no more: its end is the end
		var word struct{}
		_ = from.Decode(&word)
		cancel()
	}()
	hosts, err := layHosts(ctx, &cfg)
	for round := 0; err == nil && round < cfg.Rounds; round++ {
		if err = to.Encode(stationSays{}); err != nil {
			break
		}
		var of said
		if of, err = meet(ctx, &cfg, hosts); err == nil {
			err = to.Encode(stationSays{Of: &of})
		}
	}
	cancel()
	for _, h := range hosts {
		h.Close(cancel)
	}
	if err != nil {
		return to.Encode(stationSays{Err: err.Error()})
	}
	return to.Encode(stationSays{Done: true})
}

// layHosts starts the hosts, and lays a cable to each. With an error, too, the hosts are the
// caller's to end.
func layHosts(ctx context.Context, cfg *Config) (hosts []*child.Child, err error) {
	if err := cable.Forward(); err != nil {
		return nil, err
	}
	for i := range cfg.Hosts {
		h, err := cable.Start(ctx, cfg.Part, cable.Server, cable.Inside(cable.Veth))
		if err != nil {
			return hosts, err
		}
		hosts = append(hosts, h)
		if err := cable.Lay(ctx, fmt.Sprintf("port%d", i), gateway(i), h.PID()); err != nil {
			return hosts, err
		}
		if err := h.Tell(hostOrder{Host: i}); err != nil {
			return hosts, err
		}
		if _, err := heard(h); err != nil {
			return hosts, err
		}
	}
	return hosts, nil
}

func heard(h *child.Child) (s said, err error) {
	if err := h.Hear(&s); err != nil {
		return s, err
	}
	if s.Err != "" {
		return s, errors.New(s.Err)
	}
	return s, nil
}

// meet runs one job, a rank on each host.
func meet(ctx context.Context, cfg *Config, hosts []*child.Child) (of said, err error) {
	servers := (len(hosts) + 3) / 4
	args := append(cfg.args(servers, len(hosts)-servers), "--transport", "tcp", "--world-size", fmt.Sprint(len(hosts)), "--token-file", cfg.token(),
		"--coordinator", fmt.Sprintf("%s:%d", address(0), coordinatorPort))
	for i, h := range hosts {
		o := hostOrder{Host: i, Psrt: cfg.Psrt, Args: append(args[:len(args):len(args)], "--rank", fmt.Sprint(i))}
		tmp := filepath.Join(cfg.Dir, fmt.Sprint("tmp", i)) // as on a host of its own
		if err := os.MkdirAll(tmp, 0o700); err != nil {
			return of, err
		}
		o.Psrt.Env = append(o.Psrt.Env[:len(o.Psrt.Env):len(o.Psrt.Env)], "TMPDIR="+tmp)
		if err := h.Tell(o); err != nil {
			return of, err
		}
	}
	var mu sync.Mutex // of and err
	var all sync.WaitGroup
	for i, h := range hosts {
		all.Go(func() {
			s, e := heard(h)
			mu.Lock()
			defer mu.Unlock()
			of.Preflight = max(of.Preflight, s.Preflight)
			if s.Digest != "" {
				of.Digest = s.Digest
			}
			if e != nil {
				err = errors.Join(err, fmt.Errorf("host %d: %w", i, e))
			}
		})
	}
	all.Wait()
	if err == nil && of.Preflight == 0 {
		err = errors.New("start: no rank said how long the trial of all connections took")
	}
	return of, err
}

// serveHost is a host: it runs what it is told to, one after the other.
func serveHost(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		var o hostOrder
		if from.Decode(&o) != nil {
			return nil // the station's end is the end
		}
		var s said
		var err error
		if o.Args == nil {
			err = cable.End(ctx, address(o.Host), gateway(o.Host))
		} else {
			s, err = run(ctx, o.Psrt, o.Args)
		}
		if err != nil {
			s.Err = err.Error()
		}
		if err := to.Encode(s); err != nil {
			return err
		}
	}
}
