package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/sched/doctor"
	"psrt/sched/job"
	"psrt/sched/metrics"
	"psrt/sched/rendezvous"
)

// doctorFlags are those of psrt doctor.
type doctorFlags struct {
	json                      bool
	peers, ssd, listen, iface string
	device                    string
	port, gid                 int
	memory, need              cli.Bytes
	reach                     reachFlags
}

func newDoctor() *cobra.Command {
	f := &doctorFlags{}
	c := &cobra.Command{
		Use: "doctor", Short: "What this machine offers, what would make it faster, and what is wrong with the way to others",
		Long: `One line for each thing that psrt can use: ok, warn or missing, the figure, and the
command that mends it. Nothing is changed. With --peers, or with --coordinator and
--token-file for a job that runs, the way from here to each of them is tried, too:
dead, stopped, cut off, another token, the wrong interface, a smaller MTU; and the
ranks of a job tell what their own machines lack. Under mpirun or srun all ranks
look at their own machines and at each other, and rank 0 tells all of it.

Exit: 0, or 1 where something that was asked for by a flag is not ok.`,
		Example: `  psrt doctor
  psrt doctor --json | jq '.findings[] | select(.state != "ok")'
  psrt doctor --peers node1,node2:7700 --interface ib0
  psrt doctor --coordinator node0:7000 --token-file token
  srun -N 16 --ntasks-per-node 1 --mpi=pmix psrt doctor --interface ib0
  psrt doctor --ssd /nvme0/rows,/nvme1/rows --need 200GiB --lock 64GiB --listen :7700
  psrt doctor --device mlx5_0 --gid-index 3 --peers node1`,
	}
	fl := c.Flags()
	fl.BoolVar(&f.json, "json", false, "one JSON object on stdout")
	fl.StringVar(&f.peers, "peers", "", "other `hosts` to look at: HOST or HOST:PORT of a psrt there, comma separated")
	f.reach.register(fl)
	fl.StringVar(&f.ssd, "ssd", "", "`directories` that rows, checkpoints or models are to go to, comma separated")
	fl.Var(&f.need, "need", "bytes that each of them must have free, such as 200GiB")
	fl.Var(&f.memory, "lock", "memory that a process is to lock, such as 64GiB: --mem-budget and some")
	fl.StringVar(&f.listen, "listen", "", "`addresses` HOST:PORT that are to be listened at, comma separated")
	fl.StringVar(&f.iface, "interface", "", "network by which others are to be reached: an interface's `name`, or such as 10.0.0.0/8")
	fl.StringVar(&f.device, "device", "", "RDMA `device` to use")
	fl.IntVar(&f.port, "port", 0, "`port` of the RDMA device (0: any)")
	fl.IntVar(&f.gid, "gid-index", -1, "`index` of the RDMA port's GID to use (-1: as psrt finds it)")
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c) }
	return c
}

func (f *doctorFlags) run(c *cobra.Command) error {
	ctx, stop := cli.Interruptible()
	defer stop()
	cfg := doctor.Config{Need: int64(f.need), Memory: int64(f.memory), Interface: f.iface, Device: f.device, Port: f.port, GID: f.gid}
	if f.gid < -1 {
		return cli.Usagef("--gid-index %d: must be 0 or more, or -1", f.gid)
	}
	if f.ssd != "" {
		cfg.Dirs = paths(f.ssd)
	}
	if f.listen != "" {
		cfg.Listen = paths(f.listen)
	}
	var token []byte
	var err error
	if f.reach.tokenFile != "" || f.reach.coordinator != "" {
		if token, err = f.reach.token(); err != nil {
			return err
		}
	}
	if f.peers != "" {
		for _, p := range paths(f.peers) {
			cfg.Peers = append(cfg.Peers, doctor.Peer{Place: metrics.Place{Addr: p, Token: token}})
		}
	}
	if f.peers == "" && f.reach.coordinator == "" {
		if silent, err := f.launched(ctx, c, cfg); silent || err != nil {
			return cli.InterruptedOr(ctx, err)
		}
	}
	var found []doctor.Finding
	if f.reach.coordinator != "" {
		ranks, finding := f.ranks(ctx, token)
		cfg.Peers = append(cfg.Peers, ranks...)
		found = append(found, finding)
	}
	found = append(doctor.Examine(ctx, cfg), found...)
	if ctx.Err() != nil {
		return cli.InterruptedOr(ctx, ctx.Err())
	}
	return f.show(c, found)
}

func (f *doctorFlags) show(c *cobra.Command, found []doctor.Finding) (err error) {
	if f.json {
		err = json.NewEncoder(c.OutOrStdout()).Encode(map[string]any{"findings": found})
	} else {
		for _, f := range doctor.SameEverywhere(found) {
			fmt.Fprintln(c.OutOrStdout(), &f)
		}
	}
	if n := doctor.Failed(found); n > 0 && err == nil {
		err = &cli.Reported{Err: fmt.Errorf("%d findings are not as they were asked for", n)}
	}
	return err
}

// togetherWithin bounds an examination by all ranks of a launcher, their start
// included.
const togetherWithin = time.Minute

// launched examines all ranks' machines and the ways between them, where mpirun or
// srun has started several; done: rank 0 has told all of it.
func (f *doctorFlags) launched(ctx context.Context, c *cobra.Command, cfg doctor.Config) (done bool, err error) {
	id, ok, err := rendezvous.Identify(os.Getenv)
	if err != nil || !ok || id.World < 2 {
		return false, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, togetherWithin, fmt.Errorf("not all ranks had come within %v", togetherWithin))
	defer cancel()
	ex, err := rendezvous.Open(ctx, id)
	if errors.Is(err, rendezvous.ErrNoExchange) {
		return false, nil // each for itself
	}
	if err != nil {
		return false, err
	}
	defer ex.Close()
	found, err := doctor.Together(ctx, ex, id.Rank, cfg)
	if err != nil || id.Rank != 0 {
		return true, err
	}
	return true, f.show(c, found)
}

// ranks are those of a job that runs, by its coordinator.
func (f *doctorFlags) ranks(ctx context.Context, token []byte) ([]doctor.Peer, doctor.Finding) {
	places, _, err := f.reach.places(ctx, f.reach.coordinator, token)
	if err != nil {
		// What is wrong with the way there is found like that to any other.
		return []doctor.Peer{{Place: metrics.Place{Name: "the coordinator", Addr: f.reach.coordinator, Token: token}}},
			doctor.Finding{Name: "coordinator", Peer: f.reach.coordinator, State: doctor.Missing, Asked: true, Figure: err.Error(), Mend: "start rank 0; check --coordinator and --token-file"}
	}
	var all []doctor.Peer
	for _, p := range places {
		all = append(all, doctor.Peer{Place: p, Doctor: job.DoctorPath})
	}
	return all, doctor.Finding{Name: "coordinator", Peer: f.reach.coordinator, State: doctor.OK, Asked: true, Figure: fmt.Sprintf("answers, and knows %d ranks", len(places))}
}
