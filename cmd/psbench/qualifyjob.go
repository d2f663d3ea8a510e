package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"psrt/bench/qualify"
	"psrt/cmd/internal/cli"
	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/fault"
	"psrt/rdma/shm"
	"psrt/rdma/tcp"
	"psrt/sched/rendezvous"
)

// job says who this process is: nil where it shall start all ranks itself.
// Flags are stronger than the environment, and in that PSRT_RANK than the
// launchers' own variables. end gives back what was made for it.
func (f *qualifyFlags) job(ctx context.Context, c *cobra.Command) (job *qualify.Job, end func(), err error) {
	end = func() {}
	given := func(name string) bool { return c.Flags().Changed(name) }
	local := given("ranks") || given("workers")
	switch {
	case given("rank") && local:
		return nil, end, cli.Usagef("--ranks starts ranks, --rank is one: give one of them")
	case !given("rank") && given("world-size"):
		return nil, end, cli.Usagef("--world-size is for ranks started by hand: give --rank, too, or --ranks to start them here")
	case local:
		return nil, end, f.onlyWithRank(c)
	}
	var by rendezvous.Identity
	if given("rank") {
		by = rendezvous.Identity{By: "--rank", Rank: f.rank, World: f.world}
	} else {
		var ok bool
		if by, ok, err = rendezvous.Identify(os.Getenv); err != nil {
			return nil, end, err
		}
		if !ok {
			return nil, end, f.onlyWithRank(c)
		}
	}
	job = &qualify.Job{Rank: by.Rank, World: by.World, Coordinator: f.coordinator}
	if job.Coordinator == "" {
		job.Coordinator = os.Getenv("PSRT_COORDINATOR")
	}
	if f.tokenFile == "" {
		f.tokenFile = os.Getenv("PSRT_TOKEN_FILE")
	}
	if by.World < 2 || by.Rank < 0 || by.Rank >= by.World || by.World > qualify.MaxRanks {
		return nil, end, cli.Usagef("rank %d of %d, from %s: want 2 to %d ranks, numbered from 0: a pair is the least there is to measure", by.Rank, by.World, by.By, qualify.MaxRanks)
	}
	if job.Coordinator == "" && f.tokenFile == "" && by.OneHost && by.By != "--rank" {
		return f.meet(ctx, job, by)
	}
	if job.Coordinator == "" && by.First != "" {
		job.Coordinator = net.JoinHostPort(by.First, strconv.Itoa(by.Port()))
	}
	if job.Coordinator == "" || f.tokenFile == "" {
		return nil, end, cli.Usagef("rank %d of %d (%s): give --coordinator HOST:PORT, an address of rank 0 that every rank can reach, and --token-file, a file with a secret of at least 16 bytes, the same at every rank (head -c 32 /dev/urandom > token)",
			by.Rank, by.World, by.By)
	}
	if job.Token, err = os.ReadFile(f.tokenFile); err != nil {
		return nil, end, cli.Usagef("--token-file: %w", err)
	}
	if err := job.Check(); err != nil {
		return nil, end, cli.Usagef("%w", err)
	}
	return job, end, nil
}

// meet is where all ranks are on this host and the launcher gives no address.
func (f *qualifyFlags) meet(ctx context.Context, job *qualify.Job, by rendezvous.Identity) (*qualify.Job, func(), error) {
	key := by.Key
	if key == "" { // the launcher's process
		key = fmt.Sprintf("parent %d", os.Getppid())
	}
	m, token, err := rendezvous.OpenFolder(ctx, os.TempDir(), key, job.Rank, f.plan.JoinTimeout)
	if err != nil {
		return nil, func() {}, err
	}
	job.Coordinator, job.Token = m.Coordinator(), token
	if f.listen == "" {
		f.listen = m.Listen(job.Rank)
	}
	return job, func() { _ = m.Close() }, nil
}

// onlyWithRank refuses what has no meaning where psbench starts all ranks.
func (f *qualifyFlags) onlyWithRank(c *cobra.Command) error {
	for _, name := range []string{"coordinator", "token-file", "listen", "led"} {
		if c.Flags().Changed(name) {
			return cli.Usagef("--%s is for ranks started by hand: give --rank and --world-size, too, or leave it out to have psbench start all ranks here", name)
		}
	}
	return nil
}

// delayed gives the transports of a rank whose requests to another rank take
// longer: a slow pair for tests.
func delayed(spec string, rank int) ([]dial.Transport, error) {
	var from, to int
	way, long, found := strings.Cut(spec, ":")
	by, err := time.ParseDuration(long)
	if _, e := fmt.Sscanf(way, "%d-%d", &from, &to); !found || err != nil || e != nil {
		return nil, cli.Usagef("--delay %s: want FROM-TO:DURATION, such as 1-2:3ms", spec)
	}
	if rank != from {
		return nil, nil
	}
	script, err := fault.NewScript(fault.Rule{Peer: fmt.Sprintf("rank %d", to), Nth: 1, Every: 1, Delay: by})
	if err != nil {
		return nil, err
	}
	wrap := func(d rdma.Domain, err error) (rdma.Domain, error) {
		if err != nil {
			return nil, err
		}
		return fault.Wrap(d, script), nil
	}
	return []dial.Transport{
		{Name: "shm", Open: func() (rdma.Domain, error) { return wrap(opened(shm.New(shm.Config{Purpose: "psbench"}))) }},
		{Name: "tcp", CrossHost: true, Open: func() (rdma.Domain, error) { return wrap(opened(tcp.New(tcp.Config{Listen: "127.0.0.1:0"}))) }},
	}, nil
}
