package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/rdma/dial"
	"psrt/rdma/secure"
	"psrt/sched/coord/local"
	"psrt/sched/coord/remote"
	"psrt/sched/job"
	"psrt/sched/launch"
	"psrt/sched/metrics"
	"psrt/sched/outfile"
	"psrt/sched/serve"
)

// launched says that this is a server that serveAll has started.
func launched() bool { return os.Getenv(job.EnvLaunched) != "" }

const (
	// joinWithin bounds reaching the coordinator, which may still be starting.
	joinWithin = time.Minute
	// lingerFor is how long server 0 keeps the coordinator for others that end.
	lingerFor = 2 * time.Second
	// savingFor is how long servers may take to end where they save.
	savingFor = 12 * time.Minute
	endingFor = 10 * time.Second
)

// hostCoordinator lets servers meet at addr.
func hostCoordinator(addr string, token []byte) (*local.Store, func(), error) {
	network, address := splitAddr(addr)
	listener, err := secure.Listen(network, address, token)
	if err != nil {
		return nil, nil, cli.Usagef("--coordinator %s: %w; it must be an address of this host, with a free port", addr, err)
	}
	store := local.New()
	refused := dial.NewRefusals(func(line string) { fmt.Fprintln(os.Stderr, "the coordinator has "+line) })
	listener.OnReject(refused.OnStranger)
	listener.OnProve(refused.OnProve)
	s := remote.Serve(listener, store)
	return store, func() {
		_, _ = s.Close(), store.Close()
		refused.Close()
	}, nil
}

func splitAddr(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	return "tcp", strings.TrimPrefix(addr, "tcp:")
}

// join finds the other servers. leave is for when this one has ended.
func (f *serveFlags) join(ctx context.Context, token []byte) (g *serve.Group, leave func(), err error) {
	if f.rank == 0 && !launched() {
		store, end, err := hostCoordinator(f.coordinator, token)
		if err != nil {
			return nil, nil, err
		}
		return &serve.Group{Coord: store, Servers: f.servers}, func() {
			if f.servers > 1 {
				time.Sleep(lingerFor) // others still hear what they asked
			}
			end()
		}, nil
	}
	network, address := splitAddr(f.coordinator)
	dialing, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	for {
		c, err := remote.Dial(dialing, func(ctx context.Context) (net.Conn, error) { return secure.Dial(ctx, network, address, token) })
		if err == nil {
			return &serve.Group{Coord: c, Servers: f.servers, Index: f.rank}, func() { _ = c.Close() }, nil
		}
		if bad := f.unreachable(dialing, err); bad != nil {
			return nil, nil, bad
		}
	}
}

// unreachable is why the coordinator is not asked again; else it waits a moment.
func (f *serveFlags) unreachable(dialing context.Context, err error) error {
	if errors.Is(err, secure.ErrToken) {
		return cli.Usagef("--coordinator %s holds another token: give all servers the same --token-file", f.coordinator)
	}
	select {
	case <-dialing.Done():
		return fmt.Errorf("the coordinator at %s cannot be reached within %v: %w; start --rank 0 first, and check the address", f.coordinator, joinWithin, err)
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

// show lets psrt status and top find this server.
func (f *serveFlags) show(r *metrics.Rank, log func(string)) (end func()) {
	scratch, err := launch.OpenScratch(os.TempDir())
	if err != nil {
		log(fmt.Sprintf("psrt status will not find this server: %v", err))
		return func() {}
	}
	e, err := metrics.Listen("unix:" + metricsSocket(scratch.Path, f.rank))
	if err != nil {
		log(fmt.Sprintf("psrt status will not find this server: %v", err))
		return func() { _ = scratch.Close() }
	}
	job.NameRank(scratch.Path, f.rank, fmt.Sprintf("server %d", f.rank))
	e.Serve(r.Gatherer())
	return func() { _, _ = e.Close(), scratch.Close() }
}

func metricsSocket(dir string, rank int) string {
	return filepath.Join(dir, "metrics-"+strconv.Itoa(rank))
}

// serveAll starts every server as a process of this machine and sees to their end.
func (f *serveFlags) serveAll(ctx context.Context, c *cobra.Command) error {
	token, err := serve.Token(f.tokenFile)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	scratch, err := launch.OpenScratch(os.TempDir())
	if err != nil {
		return err
	}
	defer scratch.Close()
	coordinator := "unix:" + filepath.Join(scratch.Path, "coordinator")
	_, end, err := hostCoordinator(coordinator, token)
	if err != nil {
		return err
	}
	defer end()
	lc := launch.Config{Exe: exe, Grace: endingFor, OnLog: func(_ int, line string) { fmt.Fprintln(os.Stderr, line) }}
	if f.save != "" {
		lc.Grace = savingFor
	}
	var sockets []string
	for i := range f.servers {
		listen, err := f.listenOf(i)
		if err != nil {
			return err
		}
		job.NameRank(scratch.Path, i, fmt.Sprintf("server %d", i))
		sockets = append(sockets, metricsSocket(scratch.Path, i))
		args := append(f.common(c), "--rank", strconv.Itoa(i), "--coordinator", coordinator, "--listen", listen, "--metrics", "unix:"+sockets[i])
		lc.Ranks = append(lc.Ranks, launch.Rank{Name: fmt.Sprintf("server %d", i), Args: args, Env: []string{job.EnvLaunched + "=1"}})
	}
	shown := ""
	if f.metrics != "" {
		e, err := metrics.Listen(f.metrics)
		if err != nil {
			return cli.Usagef("--metrics: %w", err)
		}
		defer func() { _ = e.Close() }()
		own := metrics.NewRank()
		own.Name("launcher")
		e.Serve(metrics.NewJob(own, sockets))
		shown = e.Addr()
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var failures []error
	lc.OnEvent = f.whenAllAre(shown, cancel, &failures)
	if f.readyFile != "" {
		defer outfile.Remove(f.readyFile)
	}
	err = launch.Run(running, lc)
	var death *launch.Death
	switch {
	case len(failures) > 0:
		var bad interface{ BadInput() bool }
		for _, err := range failures {
			if errors.As(err, &bad) {
				return err // the others have the same fault, or ended for it
			}
		}
		return errors.Join(failures...)
	case errors.As(err, &death) && len(death.Tail) > 0:
		return fmt.Errorf("%w; its last words:\n  %s", death, strings.Join(death.Tail, "\n  "))
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return nil // a signal is how servers end
	}
	return err
}

// whenAllAre prints one line for all servers when the last is ready, and notes what
// they fail with. It is called for one line at a time, and not after launch.Run.
func (f *serveFlags) whenAllAre(shown string, failed context.CancelCauseFunc, failures *[]error) func(rank int, line []byte) {
	all := make([]string, f.servers)
	return func(rank int, line []byte) {
		var r readiness
		if json.Unmarshal(line, &r) != nil || r.Event == "failed" {
			err := fmt.Errorf("server %d: %s", rank, r.failure(f.servers))
			if r.BadInput {
				err = cli.Usagef("%w", err)
			}
			*failures = append(*failures, err)
			return
		}
		if all[rank] = r.Address; slices.Contains(all, "") {
			return
		}
		r.Address, r.Addresses, r.PID, r.Metrics = all[0], all, os.Getpid(), shown
		if err := f.announce(r); err != nil {
			failed(err)
		}
	}
}

// common are the flags that all servers get as they are.
func (f *serveFlags) common(c *cobra.Command) []string {
	args := []string{"serve", "--mem-budget", strconv.FormatInt(int64(f.memBudget)/int64(f.servers), 10)}
	transport := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(transportFlags).add(transport)
	c.Flags().Visit(func(g *pflag.Flag) {
		own := []string{"listen", "metrics", "ready-file", "config", "mem-budget", "help"}
		if transport.Lookup(g.Name) == nil && !slices.Contains(own, g.Name) && f.forServers(g) {
			args = append(args, "--"+g.Name+"="+g.Value.String())
		}
	})
	return append(args, f.transport.args()...)
}

// listenOf is where server i listens: the first where --listen says, the others at
// the ports after it.
func (f *serveFlags) listenOf(i int) (string, error) {
	if path, ok := strings.CutPrefix(f.listen, "unix:"); ok && i > 0 {
		return fmt.Sprintf("unix:%s-%d", path, i), nil
	} else if ok {
		return f.listen, nil
	}
	host, text, err := net.SplitHostPort(f.listen)
	if err != nil {
		return "", cli.Usagef("--listen %s: %w; want HOST:PORT or unix:/path", f.listen, err)
	}
	port, err := strconv.Atoi(text)
	switch {
	case err != nil || port < 0 || port > 65535:
		return "", cli.Usagef("--listen %s: the port must be a number from 0 to 65535", f.listen)
	case port == 0:
		return f.listen, nil
	case port+i > 65535:
		return "", cli.Usagef("--listen %s: server %d would listen on port %d, which there is not; give a lower one", f.listen, i, port+i)
	}
	return net.JoinHostPort(host, strconv.Itoa(port+i)), nil
}
