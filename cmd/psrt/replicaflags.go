package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/place"
	"psrt/sched/train"
)

// replicaFlags say how many servers have each row, and where this one runs.
type replicaFlags struct {
	replicas, groups int
	sameHost         bool
	rack, host       string
	weight           float64
	read             *cli.Choice
}

func (f *replicaFlags) register(fl *pflag.FlagSet) {
	fl.IntVar(&f.replicas, "replicas", 1, "servers that have each row: as many less one may die at a time, and training goes on")
	fl.IntVar(&f.groups, "groups", 0, "groups of rows, each with a chain of --replicas servers (4 for each lane); given, servers can be added and removed without replicas, too")
	fl.BoolVar(&f.sameHost, "allow-same-host", false, "let replicas be on one host: they survive the death of a process, and not of the host")
	f.read = cli.NewChoice(train.ReadHead, train.ReadHead, train.ReadAny)
	fl.Var(f.read, "read", "who answers a worker's pulls where there are replicas: the head of the row's chain, or any member, each worker another one, over a second connection for each group")
	f.labels(fl)
}

// labels are each server's own.
func (f *replicaFlags) labels(fl *pflag.FlagSet) {
	fl.StringVar(&f.rack, "rack", "", "`name` of this server's rack: replicas are in different racks, where servers have one")
	fl.StringVar(&f.host, "host-label", "", "`name` of what this server fails together with (the host's name), or of the host in which this worker adds dense gradients first, with --dense allreduce")
	fl.Float64Var(&f.weight, "weight", 1, "this server's share of the groups of rows, relative to the others' (a host with twice the memory: 2)")
}

// checkLabels refuses what no server can have.
func (f *replicaFlags) checkLabels() error {
	if !(f.weight >= place.MinWeight && f.weight <= place.MaxWeight) { // NaN too
		return cli.Usagef("--weight %g: want %g to %g; leave a server out to give it nothing", f.weight, float64(place.MinWeight), float64(place.MaxWeight))
	}
	return nil
}

// check refuses what no job can have, and what does nothing.
func (f *replicaFlags) check(c *cobra.Command, servers int) error {
	switch {
	case f.replicas < 1:
		return cli.Usagef("--replicas %d: must be at least 1", f.replicas)
	case f.replicas > servers:
		return cli.Usagef("--replicas %d: as many servers are wanted; give --servers %d or more", f.replicas, f.replicas)
	case c.Flags().Changed("groups") && f.groups < 1:
		return cli.Usagef("--groups %d: must be at least 1", f.groups)
	case f.sameHost && f.replicas == 1:
		return cli.Usagef("--allow-same-host has no effect without --replicas 2 or more: there is one replica of each row")
	}
	return f.checkLabels()
}

// onOneHost refuses replicas that would all be on this machine, where nobody said
// that they may.
func (f *replicaFlags) onOneHost(servers int) error {
	if f.replicas < 2 || f.sameHost {
		return nil
	}
	return cli.Usagef("--replicas %d: all %d servers run on this machine, and replicas of a row are never on one host, as they would be lost together: add --allow-same-host, which protects from a server that dies and not from the machine's end, or start servers on %d hosts (mpirun, srun, --rank)",
		f.replicas, servers, f.replicas)
}
