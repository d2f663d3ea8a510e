package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/rdma/dial"
	"psrt/rdma/secure"
	"psrt/sched/coord"
	"psrt/sched/coord/remote"
	"psrt/sched/job"
	"psrt/sched/metrics"
	"psrt/sched/outfile"
	"psrt/sched/place"
	"psrt/sched/serve"
	"psrt/sched/serve/keeper"
	"psrt/sched/server"
	"psrt/sched/stall"
	"psrt/sched/train"
)

// replicated: rows are in groups, which servers that come and go have.
func (f *serveFlags) replicated() bool { return f.replicas.replicas > 1 || f.replicas.groups > 0 }

// servers describes them to sched/job.
func (f *serveFlags) group(token []byte) job.ServersConfig {
	return job.ServersConfig{Servers: f.servers, Lanes: f.threads, Replicas: f.replicas.replicas, Groups: f.replicas.groups, AllowSameHost: f.replicas.sameHost, Token: token}
}

// checkReplicas refuses what servers with replicas cannot be.
func (f *serveFlags) checkReplicas(c *cobra.Command) error {
	if err := f.replicas.check(c, f.servers); err != nil {
		return err
	}
	labels := f.replicas.rack != "" || f.replicas.host != "" || c.Flags().Changed("weight")
	switch {
	case !f.replicated() && labels:
		return cli.Usagef("--rack, --host-label and --weight are for servers with --replicas or --groups: they say which of them fail together, and how many groups each has")
	case !f.replicated():
		return nil
	case c.Flags().Changed("weight") && f.coordinator == "" && !launched():
		return cli.Usagef("--weight %g: all %d servers that are started here would have it; give it to servers started one by one (--rank, --coordinator)", f.replicas.weight, f.servers)
	case f.coordinator == "" && !launched():
		return f.replicas.onOneHost(f.servers)
	}
	return nil
}

// keep begins, saves and ends the servers that meet in store.
func (f *serveFlags) keep(ctx context.Context, store coord.Coordinator, cfg serve.Config, save serveSaves, own *metrics.Rank, ready func(*job.View) error) error {
	defer context.AfterFunc(ctx, func() { own.NotReady("it is ending") })()
	host, err := dial.New(dial.Config{Transport: f.transport.kind.Value, Token: cfg.Token, Devices: cfg.Devices, Cover: f.transport.cover()})
	if err != nil {
		return err
	}
	defer host.Close()
	k, err := keeper.Begin(ctx, keeper.Config{Coord: store, Host: host, Load: save.load, Save: save.save, SaveEvery: save.every, OnSave: save.note(own), Tables: cfg.Tables, Log: cfg.Log})
	gone := context.Cause(ctx)
	switch {
	case errors.Is(gone, job.ErrServersGone):
		return gone // what became of them is told elsewhere
	case err != nil && gone != nil:
		return nil // a signal came before there was anything to save
	case err != nil:
		return err
	}
	v, err := (&job.Control{Coord: store}).View(ctx)
	switch {
	case err == nil:
		own.Ready()
		err = ready(v)
	case ctx.Err() != nil:
		err = nil
	}
	if err == nil {
		k.Run(ctx)
	}
	if gone := context.Cause(ctx); errors.Is(gone, job.ErrServersGone) {
		return gone // nobody is left who could save
	}
	return errors.Join(err, k.End())
}

// serveSaves are what servers with replicas have one process do for all.
type serveSaves struct {
	load, save string
	every      time.Duration
}

// note counts saves for the metrics, where there are any.
func (s *serveSaves) note(r *metrics.Rank) func(error) {
	if s.save == "" {
		return nil
	}
	return r.Saves().Note
}

// takeSaves takes from a server what the keeper does.
func takeSaves(cfg *serve.Config) (s serveSaves) {
	s = serveSaves{cfg.Load, cfg.Save, cfg.SaveEvery}
	cfg.Load, cfg.Save, cfg.SaveEvery = "", "", 0
	return s
}

// serveReplicas starts servers with replicas as processes of this machine, those too
// that psrt server add asks for, and those again that die.
func (f *serveFlags) serveReplicas(ctx context.Context, c *cobra.Command, cfg serve.Config) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	for i := range f.servers {
		if _, err := f.listenOf(i); err != nil {
			return err
		}
	}
	save := takeSaves(&cfg)
	if f.readyFile != "" {
		defer outfile.Remove(f.readyFile)
	}
	all := f.group(cfg.Token)
	all.Exe, all.Grace, all.Saved = exe, endingFor, "nothing was saved: --save DIR and --save-every keep a model to begin with"
	if save.save != "" {
		all.Saved = fmt.Sprintf("start psrt serve again with --load %s, where it saves: it begins with the last save", save.save)
	}
	all.Log = func(line string) { fmt.Fprintln(os.Stderr, line) }
	all.Note = cfg.Log
	all.Flags = func(number, _ int, coordinator, shown string) []string {
		listen, err := f.listenOf(number)
		if err != nil { // of one that was added beyond the last port
			listen = f.listen
			if host, _, err := net.SplitHostPort(f.listen); err == nil {
				listen = net.JoinHostPort(host, "0")
			}
		}
		return append(f.common(c), "--rank", strconv.Itoa(number), "--coordinator", coordinator, "--listen", listen, "--metrics", shown)
	}
	all.Event = func(_ int, line []byte) *train.Failure {
		var r readiness
		if json.Unmarshal(line, &r) != nil || r.Event != "failed" {
			return nil
		}
		return &train.Failure{Message: r.failure(f.servers), BadInput: r.BadInput}
	}
	all.Keep = func(ctx context.Context, store coord.Coordinator, dir string) error {
		var shown *metrics.Endpoint
		own := metrics.NewRank()
		own.Name("launcher")
		own.NotReady("the servers are starting")
		if f.metrics != "" {
			var err error
			if shown, err = metrics.Listen(f.metrics); err != nil {
				return cli.Usagef("--metrics: %w", err)
			}
			defer func() { _ = shown.Close() }()
			shown.Serve(metrics.NewJob(own, f.sockets(dir)))
		}
		return f.keep(ctx, store, cfg, save, own, func(v *job.View) error { return f.readyAll(v, cfg, save, shown) })
	}
	return job.RunServers(ctx, all)
}

func (f *serveFlags) sockets(dir string) (all []string) {
	for i := range f.servers {
		all = append(all, metricsSocket(dir, i))
	}
	return all
}

// readyAll tells that trainers may come to the servers.
func (f *serveFlags) readyAll(v *job.View, cfg serve.Config, save serveSaves, shown *metrics.Endpoint) error {
	r := f.readiness(cfg)
	r.Addresses, r.Loaded, r.Groups, r.Replicas = v.Addresses(), save.load, v.Groups, v.Replicas
	if len(r.Addresses) > 0 {
		r.Address = r.Addresses[0]
	}
	r.Tables = []string{}
	if cfg.Tables != nil {
		for _, t := range cfg.Tables.Specs {
			r.Tables = append(r.Tables, t.Name)
		}
	}
	if shown != nil {
		r.Metrics = shown.Addr()
	}
	return f.announce(r)
}

// serveReplica is one server with replicas in this process.
func (f *serveFlags) serveReplica(ctx context.Context, cfg serve.Config) (err error) {
	defer func() { err = f.toLauncher(err) }()
	save := takeSaves(&cfg)
	all := f.group(cfg.Token)
	store, first, end, err := f.meet(ctx, all, cfg)
	switch {
	case err != nil && ctx.Err() != nil && !launched():
		return nil // a signal is how servers end, and nothing has begun
	case err != nil:
		return cli.InterruptedOr(ctx, err)
	}
	defer end()
	host, err := os.Hostname()
	if err != nil || f.replicas.host != "" {
		host = f.replicas.host
	}
	cfg.Replicated = &serve.Replicated{Coord: store, Number: f.rank, First: f.servers, Host: host, Rack: f.replicas.rack, Weight: f.replicas.weight,
		Chains: place.ChainsConfig{Slots: place.DefaultSlots, Groups: all.GroupCount(), Replicas: f.replicas.replicas, AllowSameHost: f.replicas.sameHost}}
	s, err := serve.NewReplica(cfg)
	if err != nil {
		return err
	}
	r := metrics.NewRank()
	r.Name(fmt.Sprintf("server %d", f.rank))
	r.Server(server.Groups{ID: f.rank, All: s.Servers})
	watch := stall.New(stall.Config{Rank: fmt.Sprintf("server %d", f.rank), After: f.stallAfter, Say: cfg.Log})
	watch.From(func(ctx context.Context, after time.Duration) (waits []stall.Wait) {
		for _, g := range s.Servers() {
			waits = append(waits, g.Waits(ctx, -1, after)...)
		}
		return waits
	})
	r.Stalls(watch)
	if f.metrics != "" {
		shown, err := metrics.Listen(f.metrics)
		if err != nil {
			return cli.Usagef("--metrics: %w", err)
		}
		defer func() { _ = shown.Close() }()
		shown.Serve(r.Gatherer())
	}
	if !launched() {
		defer f.show(r, cfg.Log)()
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	go watch.Run(running)
	kept := make(chan error, 1)
	keeping, release := context.WithCancelCause(ctx)
	defer release(nil)
	if f.rank == 0 && !launched() {
		if !first {
			save.load = "" // they have it
		}
		go func() {
			err := f.keep(keeping, store, cfg, save, r, func(v *job.View) error { return f.readyAll(v, cfg, save, nil) })
			kept <- err
			cancel(err)
		}()
	} else {
		kept <- nil
		defer context.AfterFunc(ctx, func() {
			if launched() {
				staysForSave(running, store)
			}
			cancel(errEnded)
		})()
	}
	err = s.Run(running, func() {
		r.Ready()
		if f.rank > 0 && !launched() {
			one := f.readiness(cfg)
			one.Address, one.Tables = s.Addr(), s.Tables()
			_ = f.announce(one) // standard output may be closed
		}
	})
	release(job.ErrServersGone)
	if failed := <-kept; failed != nil && !errors.Is(failed, job.ErrServersGone) && (ctx.Err() == nil || !errors.Is(failed, context.Canceled)) {
		err = errors.Join(err, failed)
	}
	if f.readyFile != "" && !launched() {
		outfile.Remove(f.readyFile)
	}
	if err == nil && launched() && errors.Is(context.Cause(running), errEnded) { // who removes a server asks it, and sends no signal
		return &cli.Reported{Err: errEnded}
	}
	return err
}

// closingWithin is how long a server that gets a signal looks whether all of them end.
const closingWithin = 2 * time.Second

// staysForSave returns when a server that got a signal may end: at once where it is
// meant alone; where its launcher got one too (systemd sends it to all processes of a
// unit), when the last save is over.
func staysForSave(ctx context.Context, store coord.Coordinator) {
	looking, cancel := context.WithTimeout(ctx, closingWithin)
	defer cancel()
	if _, err := coord.Await(looking, store, serve.KeyClosing); err != nil {
		return
	}
	saving, cancel := context.WithTimeout(ctx, savingFor)
	defer cancel()
	if _, err := coord.AwaitThrough(saving, store, serve.KeyOver); err == nil {
		<-saving.Done() // the server ends by itself
	}
}

// errEnded has the launcher start a server again that somebody has ended.
var errEnded = errors.New("it was told to end by a signal")

// meet is where the servers meet. first is that this process keeps them, and begins.
func (f *serveFlags) meet(ctx context.Context, all job.ServersConfig, cfg serve.Config) (store coord.Coordinator, first bool, end func(), err error) {
	if ends := job.Endpoints(f.coordinator); ends != nil {
		sc := job.StoreConfig{Endpoints: ends, CA: f.tlsCA, Cert: f.tlsCert, Key: f.tlsKey, User: os.Getenv("PSRT_ETCD_USER"), Password: os.Getenv("PSRT_ETCD_PASSWORD"), Note: cfg.Log}
		store, first, err = job.EtcdServers(ctx, all, sc, f.rank == 0)
		return store, first, func() { f.linger(); _ = store.Close() }, err
	}
	if f.rank == 0 && !launched() {
		s, closed, err := job.HostServers(ctx, f.coordinator, all)
		return s, true, func() { f.linger(); closed() }, err
	}
	network, address := splitAddr(f.coordinator)
	dialing, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	for {
		c, err := remote.Dial(dialing, func(ctx context.Context) (net.Conn, error) { return secure.Dial(ctx, network, address, cfg.Token) })
		if err == nil {
			return c, false, func() { _ = c.Close() }, nil
		}
		if bad := f.unreachable(dialing, err); bad != nil {
			return nil, false, nil, bad
		}
	}
}

// linger lets others hear what they asked, where this process keeps what they ask.
func (f *serveFlags) linger() {
	if f.rank == 0 && f.servers > 1 {
		time.Sleep(lingerFor)
	}
}

// replicaOwn are flags that the launcher gives each server itself, or keeps.
var replicaOwn = []string{"save", "load", "save-every", "begin-anew"}

func (f *serveFlags) forServers(g *pflag.Flag) bool {
	return !f.replicated() || !slices.Contains(replicaOwn, g.Name)
}
