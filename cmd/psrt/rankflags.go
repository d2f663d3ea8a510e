package main

import (
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/job"
	"psrt/sched/train"
)

// Where ranks are started by hand, most flags describe the job and are read at
// rank 0 alone. These are each rank's own.
var ownFlags = []string{
	"rank", "world-size", "coordinator", "token-file", "join-timeout", "listen", "interface", "rendezvous", "tls-ca", "tls-cert", "tls-key", "numa", "quiet", "config", "help", "metrics",
	"rack", "host-label", "weight", "stall-after", "transport", "device", "port", "gid-index", "traffic-class",
}

// resultFlags are for the rank that has the result: the first worker.
var resultFlags = []string{"json", "report", "tensorboard"}

// jobFlags are the flags that describe the job, with their values.
func jobFlags(c *cobra.Command) map[string]string {
	values := make(map[string]string)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(ownFlags, f.Name) {
			values[f.Name] = f.Value.String()
		}
	})
	return values
}

// agree refuses flags that this rank was given and that nobody would read: the
// same flags at every rank are fine, and so is a rank that has none.
func (f *trainFlags) agree(c *cobra.Command, j *train.Job) error {
	var err error
	c.Flags().Visit(func(g *pflag.Flag) {
		at0, known := j.Flags[g.Name]
		if err != nil || !known || slices.Contains(resultFlags, g.Name) || at0 == g.Value.String() {
			return
		}
		has := "has " + at0
		if at0 == g.DefValue {
			has = "does not have it"
		}
		err = cli.Usagef("--%s %s at rank %d, but rank 0, which describes the job, %s: give it to rank 0, or leave it out here", g.Name, g.Value, f.rank, has)
	})
	for _, name := range resultFlags {
		g := c.Flags().Lookup(name)
		if g == nil { // psrt eval and psrt predict have one of them
			continue
		}
		here, at0 := g.Value.String() != "", j.Flags[name] != ""
		switch {
		case err != nil || here == at0:
		case f.rank == f.hasResult(j) && !here:
			err = cli.Usagef("rank 0 has --%s, but the result is with the first worker: give --%s to this rank, %d", name, name, f.rank)
		case f.rank != f.hasResult(j) && here:
			err = cli.Usagef("--%s at rank %d writes nothing: the result is with the first worker; give --%s to rank %d", name, f.rank, name, f.hasResult(j))
		}
	}
	return err
}

// onlyWithRank refuses what has no meaning while psrt starts all ranks itself, but for what
// has another one.
func (f *trainFlags) onlyWithRank(c *cobra.Command, but ...string) error {
	for _, name := range []string{"world-size", "coordinator", "token-file", "join-timeout", "listen", "interface", "rendezvous", "weight"} {
		if name == "coordinator" && len(job.Endpoints(f.coordinator)) > 0 || slices.Contains(but, name) {
			continue
		}
		if g := c.Flags().Lookup(name); g != nil && g.Changed && g.Value.String() != g.DefValue {
			return cli.Usagef("--%s is for ranks started by hand: give --rank, too, or leave it out to have psrt start all ranks here", name)
		}
	}
	return nil
}

// openOutputs finds out before the work whether the result can be written.
func (f *trainFlags) openOutputs() (io.WriteCloser, error) {
	if f.report != "" {
		file, err := os.OpenFile(f.report, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, cli.Usagef("--report: %w", err)
		}
		file.Close()
	}
	return cli.OpenOutput("json", f.json)
}
