package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/sched/clock"
	"psrt/sched/job"
	"psrt/sched/metrics"
	"psrt/sched/outfile"
	"psrt/sched/serve"
	"psrt/sched/server"
	"psrt/sched/stall"
	"psrt/tiers/ckpt"
	"psrt/tiers/policy"
)

type serveFlags struct {
	listen, tokenFile, tables, load, save, readyFile, numa, config, metrics, coordinator string

	newTables  bool
	beginAnew  bool
	transport  transportFlags
	threads    int
	clients    int
	servers    int
	rank       int
	sync       *cli.Choice
	staleness  int
	tableSync  tableSync
	memBudget  cli.Bytes
	saveEvery  time.Duration
	stallAfter time.Duration
	storage    ssdFlags
	hbm        hbmFlags
	replicas   replicaFlags
	audit      auditFlags

	tlsCA, tlsCert, tlsKey string // to the user's etcd
}

func newServe() *cobra.Command {
	f := &serveFlags{sync: cli.NewChoice("asp", "asp", "ssp", "bsp")}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve tables to trainers of your own, through libpsrt",
		Long: `Serve tables to trainers that link libpsrt (C, C++, Python and others) or use the
Go client. Trainers come and go as they like. What a table is (its dimension, and
how what is pushed changes it) is in the tables file; docs/serve.md describes it.

When trainers can connect, one line is printed on standard output (and written to
--ready-file): a JSON object with "event":"ready", "address" and "pid". SIGTERM and
SIGINT end the server: connections are closed, the model is saved where --save
says, and nothing is left behind.`,
		Example: `  psrt serve --token-file token --tables tables.yaml
  psrt serve --listen 10.0.0.5:7700 --token-file token --tables tables.yaml --load model --save model --save-every 10m
  psrt serve --token-file token --new-tables --sync ssp --staleness 2
  psrt serve --token-file token --tables tables.yaml --servers 4
  psrt serve --token-file token --tables tables.yaml --servers 3 --replicas 2 --allow-same-host
  psrt serve --token-file token --tables tables.yaml --servers 3 --replicas 2 --allow-same-host --mem-budget 24GiB --ssd /ssd/a,/ssd/b
  psrt serve --token-file token --tables tables.yaml --hbm-budget 8GiB
  psrt serve --token-file token --tables tables.yaml --servers 2 --coordinator node0:7600 --rank 1 --listen node1:7700`,
	}
	fl := c.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:7700", "`address` that trainers connect to: host:port (port 0: any free one) or unix:/path")
	fl.StringVar(&f.tokenFile, "token-file", "", "`file` with the secret that trainers must know; made where it is missing")
	fl.StringVar(&f.tables, "tables", "", "YAML `file` that describes the tables")
	fl.BoolVar(&f.newTables, "new-tables", false, "let trainers describe tables that the file lacks (always, where there is no --tables)")
	f.transport.add(fl)
	fl.IntVar(&f.threads, "threads", min(4, runtime.NumCPU()), "threads that serve; each owns a share of the rows")
	fl.IntVar(&f.clients, "clients", 64, "trainers that may be connected at a time")
	fl.Var(f.sync, "sync", "consistency among the trainers that are connected: asp, ssp (see --staleness) or bsp")
	fl.IntVar(&f.staleness, "staleness", 0, "ssp: how many steps trainers may be apart")
	fl.Var(&f.tableSync, "table-sync", "consistency of single tables of the tables file, or of its dense vector, as in user=asp,dense=ssp:0-4 (as --sync); bsp is for all or none")
	fl.Var(&f.memBudget, "mem-budget", "memory for all tables, such as 4GiB; 0: no limit")
	f.storage.register(fl, policy.NameS3FIFO)
	f.hbm.register(fl)
	fl.StringVar(&f.numa, "numa", "auto", "NUMA node of the rows: auto, none or a node's number")
	fl.StringVar(&f.load, "load", "", "model `directory` to begin with, where there is one")
	fl.StringVar(&f.save, "save", "", "model `directory` to write when the server ends, and every --save-every: new, empty, or with a model of psrt")
	fl.BoolVar(&f.beginAnew, "begin-anew", false, "begin with empty tables, or those of --load, although --save holds another model, which the first save replaces")
	fl.DurationVar(&f.saveEvery, "save-every", 0, "also save so often, such as 10m")
	fl.IntVar(&f.servers, "servers", 1, "server processes that trainers use as one: on this machine, or with --coordinator one by one")
	fl.StringVar(&f.coordinator, "coordinator", "", "`address` at which --servers that are started one by one meet: HOST:PORT of --rank 0, which all can reach, or with --replicas https://HOST:PORT[,…], your etcd (PSRT_ETCD_USER, PSRT_ETCD_PASSWORD)")
	fl.IntVar(&f.rank, "rank", 0, "with --coordinator: which of the servers this is")
	f.replicas.register(fl)
	f.audit.registerServe(fl)
	fl.StringVar(&f.tlsCA, "tls-ca", "", "PEM `file` with the authority of your etcd's certificate (the system's)")
	fl.StringVar(&f.tlsCert, "tls-cert", "", "PEM `file` with this server's certificate for your etcd")
	fl.StringVar(&f.tlsKey, "tls-key", "", "PEM `file` with its key")
	fl.StringVar(&f.readyFile, "ready-file", "", "write the readiness line to this `file`, too; removed at the end")
	fl.DurationVar(&f.stallAfter, "stall-after", 10*time.Second, "a request that waits for so long is told: for whom, why, and since when (0: never)")
	fl.StringVar(&f.metrics, "metrics", "", "show the server to Prometheus at this `address`, such as 127.0.0.1:9090; it answers /healthz and /readyz, too")
	fl.StringVar(&f.config, "config", "", "YAML `file` with these flags; flags win")
	cli.ZeroIsUnset(fl, "save-every")
	c.RunE = func(c *cobra.Command, _ []string) error { return runServe(c, f) }
	return c
}

func runServe(c *cobra.Command, f *serveFlags) error {
	if f.config != "" {
		if err := applyConfig(c, f.config); err != nil {
			return err
		}
	}
	cfg, err := f.describe(c)
	if err != nil {
		return err
	}
	defer oneSignal()()
	ctx, stop := cli.Interruptible()
	defer stop()
	switch {
	case f.replicated() && f.coordinator == "":
		return f.serveReplicas(ctx, c, cfg)
	case f.replicated():
		return f.serveReplica(ctx, cfg)
	case f.servers > 1 && f.coordinator == "":
		return f.serveAll(ctx, c)
	}
	return f.toLauncher(f.serveOne(ctx, cfg))
}

// serveOne is one server without replicas in this process.
func (f *serveFlags) serveOne(ctx context.Context, cfg serve.Config) error {
	if f.coordinator != "" {
		group, leave, err := f.join(ctx, cfg.Token)
		switch {
		case err != nil && ctx.Err() != nil && !launched():
			return nil // a signal is how a server ends, and nothing has begun
		case err != nil:
			return cli.InterruptedOr(ctx, err)
		}
		defer leave()
		cfg.Group = group
	}
	var shown *metrics.Endpoint
	if f.metrics != "" {
		var err error
		if shown, err = metrics.Listen(f.metrics); err != nil {
			return cli.Usagef("--metrics: %w", err)
		}
		defer func() { _ = shown.Close() }()
	}
	r := metrics.NewRank()
	r.Name(fmt.Sprintf("server %d", f.rank))
	if cfg.Save != "" && f.rank == 0 {
		cfg.OnSave = r.Saves().Note
	}
	s, err := serve.New(cfg)
	if err != nil {
		return err
	}
	r.Server(s.Server())
	watch := stall.New(stall.Config{Rank: fmt.Sprintf("server %d", f.rank), After: f.stallAfter, Say: cfg.Log})
	watch.From(func(ctx context.Context, after time.Duration) []stall.Wait { return s.Server().Waits(ctx, -1, after) })
	r.Stalls(watch)
	if shown != nil {
		shown.Serve(r.Gatherer())
	}
	if !launched() {
		defer f.show(r, cfg.Log)()
	}
	failed := make(chan error, 1)
	running, cancel := context.WithCancel(ctx)
	go watch.Run(running)
	defer cancel()
	defer context.AfterFunc(running, func() { r.NotReady("it is ending") })()
	err = s.Run(running, func() {
		r.Ready()
		if err := f.ready(s, cfg, shown); err != nil {
			failed <- err
			cancel()
		}
	})
	if f.readyFile != "" {
		outfile.Remove(f.readyFile)
	}
	select {
	case bad := <-failed:
		err = errors.Join(bad, err)
	default:
	}
	return err // a signal is how a server ends: it is no failure
}

// describe checks the flags and reads the files they name.
func (f *serveFlags) describe(c *cobra.Command) (cfg serve.Config, err error) {
	cfg = serve.Config{Listen: f.listen, Transport: f.transport.kind.Value, Cover: f.transport.cover(), Lanes: f.threads, Clients: f.clients,
		NewTables: f.newTables || f.tables == "", MaxBytes: int64(f.memBudget), Save: f.save, SaveEvery: f.saveEvery,
		Log: func(line string) {
			fmt.Fprintf(os.Stderr, "psrt serve: %s %s\n", time.Now().UTC().Format("15:04:05"), line)
		}}
	switch {
	case f.tokenFile == "":
		return cfg, cli.Usagef("--token-file is missing: a file with a secret that trainers must know, made where it does not exist")
	case f.servers < 1 || f.servers > serve.MaxServers:
		return cfg, cli.Usagef("--servers %d: must be 1 to %d", f.servers, serve.MaxServers)
	case f.rank < 0 || f.rank >= serve.MaxServers:
		return cfg, cli.Usagef("--rank %d: must be 0 to %d", f.rank, serve.MaxServers-1)
	case f.rank >= f.servers && !f.replicated():
		return cfg, cli.Usagef("--rank %d: must be 0 to %d, one less than --servers", f.rank, f.servers-1)
	case checkListen(f.listen) != nil:
		return cfg, checkListen(f.listen)
	case f.coordinator != "" && checkCoordinator(f.coordinator) != nil:
		return cfg, checkCoordinator(f.coordinator)
	case f.rank > 0 && f.coordinator == "":
		return cfg, cli.Usagef("--rank %d is for servers that are started one by one: say where they meet, by --coordinator HOST:PORT", f.rank)
	case f.rank > 0 && f.save != "" && !launched():
		return cfg, cli.Usagef("--save %s at --rank %d: give it to rank 0, which saves the model of all servers", f.save, f.rank)
	case f.threads < 1 || f.threads > serve.MaxLanes:
		return cfg, cli.Usagef("--threads %d: must be 1 to %d", f.threads, serve.MaxLanes)
	case f.clients < 1 || f.clients > serve.MaxClients:
		return cfg, cli.Usagef("--clients %d: must be 1 to %d", f.clients, serve.MaxClients)
	case f.staleness < 0 || f.staleness > 0 && f.sync.Value != "ssp":
		return cfg, cli.Usagef("--staleness %d: must be 0 or more, and is for --sync ssp", f.staleness)
	case f.saveEvery < 0 || f.saveEvery > 0 && f.saveEvery < time.Second:
		return cfg, cli.Usagef("--save-every %v: must be 1s or more", f.saveEvery)
	case f.saveEvery > 0 && f.save == "":
		return cfg, cli.Usagef("--save-every %v needs --save, the directory to save to", f.saveEvery)
	}
	switch f.sync.Value {
	case "asp":
		cfg.Staleness = server.Async
	case "ssp":
		cfg.Staleness = f.staleness
	}
	cfg.TableSync = clock.ByTable(f.tableSync)
	if err := f.checkReplicas(c); err != nil {
		return cfg, err
	}
	if cfg.Audit, err = f.audit.serve(c, f.coordinator != "" && (f.servers > 1 || f.replicated()) && !launched()); err != nil {
		return cfg, err
	}
	if cfg.Storage, err = f.storage.describe(c, f.hbm.budget == 0); err != nil {
		return cfg, err
	}
	if cfg.Device, err = f.hbm.device(c, f.storage.policy.Value); err != nil {
		return cfg, err
	}
	if cfg.Storage != nil && cfg.MaxBytes == 0 {
		cfg.MaxBytes = budget(f.servers)
	}
	if cfg.Devices, err = f.transport.Devices(); err != nil {
		return cfg, err
	}
	if cfg.Node, err = job.NUMANode(f.numa, f.rank, ""); err != nil {
		return cfg, cli.Usagef("--numa: %w", err)
	}
	if f.tables != "" {
		if cfg.Tables, err = serve.ReadTables(f.tables); err != nil {
			return cfg, err
		}
	}
	if err := cfg.CheckDevice(); err != nil {
		return cfg, err
	}
	if err := noNumber("save", f.save); err != nil {
		return cfg, err
	}
	// A server that joins others which serve already has no say in what they began with.
	joins := launched() || f.replicated() && f.coordinator != ""
	if f.save != "" && filepath.Clean(f.load) != filepath.Clean(f.save) && !f.beginAnew && !joins {
		if _, err := os.Stat(filepath.Join(f.save, ckpt.ManifestName)); err == nil {
			return cfg, cli.Usagef("--save %s holds a model, which the first save would replace: --load %s begins with it, --begin-anew without it; or give another --save", f.save, f.save)
		}
	}
	if f.save != "" {
		if err := replaceable(c, "save", f.save); err != nil {
			return cfg, err
		}
	}
	if f.load != "" {
		// The first start of a server that loads what it saves finds nothing yet.
		switch _, err := os.Stat(filepath.Join(f.load, ckpt.ManifestName)); {
		case err == nil:
			cfg.Load = f.load
		case !errors.Is(err, os.ErrNotExist) || f.load != f.save:
			return cfg, cli.Usagef("--load %s: there is no model (%v)", f.load, err)
		default:
			if f.rank == 0 && !launched() {
				cfg.Log(fmt.Sprintf("%s holds no model yet: beginning with empty tables", f.load))
			}
		}
	}
	cfg.Token, err = serve.Token(f.tokenFile)
	return cfg, err
}

// readiness is the line that says that trainers may come. Keys are only added.
type readiness struct {
	Event   string `json:"event"`
	Address string `json:"address"`
	// Addresses are those of all servers, of which a trainer needs any one.
	Addresses []string `json:"addresses,omitempty"`
	PID       int      `json:"pid"`
	Version   string   `json:"version"`
	Threads   int      `json:"threads"`
	Clients   int      `json:"clients"`
	Sync      string   `json:"sync"`
	TableSync string   `json:"table_sync,omitempty"`
	Tables    []string `json:"tables"`
	Dense     int      `json:"dense"`
	Loaded    string   `json:"loaded,omitempty"`
	Metrics   string   `json:"metrics,omitempty"`
	Groups    int      `json:"groups,omitempty"`
	Replicas  int      `json:"replicas,omitempty"`
	Error     string   `json:"error,omitempty"` // of a server that serveAll has started
	BadInput  bool     `json:"bad_input,omitempty"`

	Memory *server.MemoryError `json:"memory,omitempty"` // likewise
}

// readiness is what is known of it before.
func (f *serveFlags) readiness(cfg serve.Config) readiness {
	r := readiness{Event: "ready", PID: os.Getpid(), Version: version, Threads: f.threads, Clients: f.clients, Sync: f.sync.Value, TableSync: f.tableSync.String()}
	if cfg.Tables != nil {
		r.Dense = cfg.Tables.Dense.Floats
	}
	return r
}

func (f *serveFlags) ready(s *serve.Server, cfg serve.Config, shown *metrics.Endpoint) error {
	r := f.readiness(cfg)
	r.Address, r.Tables, r.Loaded = s.Addr(), s.Tables(), cfg.Load
	if shown != nil {
		r.Metrics = shown.Addr()
	}
	return f.announce(r)
}

// announce says that trainers may come: to the launcher where there is one.
func (f *serveFlags) announce(r readiness) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if launched() {
		_, err := os.NewFile(3, "events").Write(b)
		return err
	}
	if f.readyFile != "" {
		// Whoever waits for the file finds all of it.
		out, err := outfile.Create(f.readyFile)
		if err == nil {
			_, err = out.Write(b)
			err = errors.Join(err, out.End(err == nil))
		}
		if err != nil {
			return cli.Usagef("--ready-file: %w", err)
		}
	}
	_, err = os.Stdout.Write(b)
	return err
}

// toLauncher tells the launcher, where there is one, why this server ends: it shows that.
func (f *serveFlags) toLauncher(err error) error {
	var bad interface{ BadInput() bool }
	if err == nil || !launched() {
		return err
	}
	r := readiness{Event: "failed", Error: err.Error(), BadInput: errors.As(err, &bad) && bad.BadInput()}
	errors.As(err, &r.Memory)
	if said := f.announce(r); said != nil {
		return errors.Join(err, said)
	}
	return &cli.Reported{Err: err}
}

// failure is why a server has ended that is one of several processes, which share --mem-budget.
func (r *readiness) failure(servers int) string {
	if m := r.Memory; m != nil && m.Table == "" {
		return (&server.MemoryError{Bytes: m.Bytes * int64(servers), Least: m.Least * int64(servers)}).Error()
	}
	return r.Error
}

// oneSignal takes signals that come within a second of the first for the same
// one: supervisors send theirs to the process and to its group. A later one ends
// the process as usual.
func oneSignal() (stop func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		for begin := time.Now(); time.Since(begin) < time.Second; {
			select {
			case <-signals:
			case <-time.After(time.Second - time.Since(begin)):
			}
		}
		signal.Stop(signals)
	}()
	return func() { signal.Stop(signals) }
}
