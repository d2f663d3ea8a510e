package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/sched/job"
	"psrt/sched/rendezvous"
	"psrt/sched/train"
)

// embedded is --coordinator's word for: psrt keeps one itself.
const embedded = "embedded"

// identify says which rank this process is: by --rank, else by what a launcher
// has put into the environment. false: psrt starts all ranks itself.
func (f *trainFlags) identify(c *cobra.Command) (bool, error) {
	if c.Flags().Changed("rank") {
		if f.world < 2 { // what is missing is said later
			return true, nil
		}
		return true, f.rest(c)
	}
	id, ok, err := rendezvous.Identify(os.Getenv)
	if err != nil || !ok || id.World < 2 { // a launcher's only rank starts the others
		return false, err
	}
	f.launched, f.rank = &id, id.Rank
	if c.Flags().Changed("world-size") && f.world != id.World {
		return false, cli.Usagef("--world-size %d, but %s says that there are %d ranks: leave the flag out", f.world, id.By, id.World)
	}
	f.world = id.World
	if err := f.rest(c); err != nil {
		return false, err
	}
	if f.coordinator == embedded && os.Getenv("PSRT_COORDINATOR") != "" {
		f.coordinator = os.Getenv("PSRT_COORDINATOR")
	}
	if f.tokenFile == "" {
		f.tokenFile = os.Getenv("PSRT_TOKEN_FILE")
	}
	return true, nil
}

// rest has the ranks work that neither serve nor are dense ranks, where --workers does not
// say how many.
func (f *trainFlags) rest(c *cobra.Command) error {
	if f.colocate {
		return nil
	}
	dense, err := f.heter.count(c, f.colocate)
	if err != nil {
		return err
	}
	if !c.Flags().Changed("workers") {
		f.workers = f.world - f.servers - dense
	}
	if f.servers+dense >= f.world {
		of := fmt.Sprintf("--servers %d", f.servers)
		if dense > 0 {
			of += fmt.Sprintf(" and --dense-ranks %d", dense)
		}
		return cli.Usagef("%s of %d ranks leaves none to work: start more ranks, or give fewer of these", of, f.world)
	}
	return nil
}

// together sets the numbers of servers and workers where every process is both.
func (f *trainFlags) together(c *cobra.Command, processes int) error {
	if !f.colocate {
		return nil
	}
	if f.replicas.replicas > 1 || f.replicas.groups > 0 {
		return cli.Usagef("--colocate with --replicas or --groups: a process that dies would take its worker along, and could not come back as a server alone; start servers and workers as processes of their own")
	}
	for name, n := range map[string]int{"servers": f.servers, "workers": f.workers} {
		if c.Flags().Changed(name) && n != processes {
			return cli.Usagef("--%s %d with --colocate in %d processes, each of which is a server and a worker: leave --%s out", name, n, processes, name)
		}
	}
	f.servers, f.workers = processes, processes
	return nil
}

// hasResult is the rank that prints the result: the one with the first worker.
func (f *trainFlags) hasResult(j *train.Job) int {
	if f.colocate {
		return 0
	}
	return j.Servers
}

// label is the beginning of every line that a launched rank writes: the
// launchers mix the lines of all ranks.
func (f *trainFlags) label() string {
	if f.launched == nil {
		return ""
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	who := job.RankName(f.rank, f.servers, f.workers)
	if f.colocate {
		who = fmt.Sprintf("rank %d", f.rank)
	}
	return fmt.Sprintf("[%s %s] ", who, host)
}

// launcherEndsAll warns where the launcher would undo what the job is to survive.
func (f *trainFlags) launcherEndsAll(j *train.Job) string {
	if f.launched == nil || f.launched.EndsAll == "" || j.Replicas < 2 && !j.Survives() {
		return ""
	}
	return "by its variables the launcher ends all ranks when one of them dies, so that nothing goes on without it: give " + f.launched.EndsAll
}

// meet finds the other ranks where a launcher has started this one and no
// --coordinator says where they are. nil: it does.
func (f *trainFlags) meet(ctx context.Context, store job.StoreConfig, describe func() (*train.Job, error), note func(string)) (*job.Launched, error) {
	id := f.launched
	if id == nil || f.coordinator != embedded && len(store.Endpoints) == 0 || f.rendezvous != "" {
		return nil, nil
	}
	var token []byte
	if f.tokenFile != "" {
		var err error
		if token, err = f.token(); err != nil {
			return nil, err
		}
	}
	met, err := job.Meet(ctx, job.LaunchedConfig{
		Identity: *id, Servers: f.servers, Workers: f.workers, Token: token, Interface: f.iface, Listen: f.listen, Transport: f.transport.kind.Value, Timeout: f.joinTimeout,
		Store: store, Describe: describe, Note: note, OneHost: f.replicasOnOneHost,
	})
	switch {
	case err == nil:
		return met, nil
	case !errors.Is(err, rendezvous.ErrNoExchange):
		return nil, err
	case id.First != "" && token != nil:
		f.rendezvous = net.JoinHostPort(id.First, strconv.Itoa(id.Port()))
		note("ranks meet at " + f.rendezvous + ", the first host of the step")
		return nil, nil
	}
	return nil, cli.Usagef("rank %d of %d (%s): %w; use srun --mpi=pmix or --mpi=pmi2, or give --coordinator HOST:PORT, an address of rank 0 that every rank can reach, and --token-file, a file with a secret of at least 16 bytes, the same at every rank (head -c 32 /dev/urandom > token)",
		id.Rank, id.World, id.By, err)
}

// replicasOnOneHost refuses at every rank what rank 0's first shard map would: who ends
// first says it to the launcher. Labels may say that it is no one host.
func (f *trainFlags) replicasOnOneHost() error {
	if f.replicas.rack != "" || f.replicas.host != "" {
		return nil
	}
	return f.replicas.onOneHost(f.servers)
}

// find fills in how a rank reaches the others: by what started it, else as it was told.
// linger is for rank 0, at its end.
func (f *trainFlags) find(ctx context.Context, cfg *job.RankConfig, store job.StoreConfig, describe func() (*train.Job, error), note func(string)) (met *job.Launched, linger func(error), err error) {
	linger = func(error) {}
	if met, err = f.meet(ctx, store, describe, note); err != nil {
		return nil, nil, err
	}
	if met != nil {
		f.coordinator, cfg.Token, cfg.Listen = met.Coordinator, met.Token, met.Listen
		if met.Hosted != nil {
			linger, cfg.Hosted = met.Hosted.Linger, met.Hosted
		}
		if f.rank > 0 && f.rank < f.servers && f.tokenFile == "" { // a token of this job alone, so nothing old is found
			cfg.Store = store
		}
	} else if cfg.Token, err = f.byHand(store); err != nil {
		return nil, nil, err
	}
	// Ranks of one launcher of psrt are on one host.
	cfg.Preflight, cfg.Interface = met == nil && cfg.Seen, f.iface
	return met, linger, nil
}

// byHand says where the others are, and the secret, for a rank that has to be told.
func (f *trainFlags) byHand(store job.StoreConfig) ([]byte, error) {
	switch {
	case f.rendezvous != "":
		if err := checkAddress("rendezvous", f.rendezvous); err != nil {
			return nil, err
		}
		f.coordinator = f.rendezvous
	case f.coordinator == embedded:
		return nil, cli.Usagef("--rank needs --coordinator HOST:PORT, an address of rank 0 that every rank can reach")
	case len(store.Endpoints) > 0:
		return nil, cli.Usagef("--rank with --coordinator %s needs --rendezvous HOST:PORT, too, an address of rank 0 that every rank can reach: only servers talk to etcd", f.coordinator)
	}
	if err := checkCoordinator(f.coordinator); err != nil {
		return nil, err
	}
	return f.token()
}

// store says where the job's keys are kept.
func (f *trainFlags) store(c *cobra.Command, note func(string)) job.StoreConfig {
	return job.StoreConfig{
		Endpoints: job.Endpoints(f.coordinator), Embedded: f.coordinator == embedded && c.Flags().Changed("coordinator"),
		CA: f.tlsCA, Cert: f.tlsCert, Key: f.tlsKey, User: os.Getenv("PSRT_ETCD_USER"), Password: os.Getenv("PSRT_ETCD_PASSWORD"), Note: note,
	}
}

// labelled prints a launched rank's error the way its other lines look.
func (f *trainFlags) labelled(err error) error {
	label := f.label()
	if err == nil || label == "" {
		return err
	}
	var shown *cli.Reported
	if errors.As(err, &shown) {
		return err
	}
	cli.Exit(os.Stderr, label+"psrt", err)
	return &cli.Reported{Err: err}
}
