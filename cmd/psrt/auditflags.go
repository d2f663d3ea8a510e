package main

import (
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/audit"
)

// auditFlags say what psrt train records for psrt audit.
type auditFlags struct {
	dir   string
	rate  float64
	limit cli.Bytes
	run   string
}

func (f *auditFlags) register(fl *pflag.FlagSet) {
	f.limit = audit.DefaultLimit
	fl.StringVar(&f.dir, "audit", "", "record what is asked and answered in `directory`, at each rank's host, for psrt audit")
	fl.Float64Var(&f.rate, "audit-rate", audit.DefaultRate, "share of the keys whose values and gradients are recorded")
	fl.Var(&f.limit, "audit-limit", "most bytes of one worker's or lane's record; what follows is not judged")
}

// registerServe is register for servers, whose trainers record by themselves.
func (f *auditFlags) registerServe(fl *pflag.FlagSet) {
	f.register(fl)
	fl.StringVar(&f.run, "audit-run", "", "`name` of the record's run, the same for servers that are started one by one (made of the time)")
}

// serve gives the servers' part; all of a launcher's servers have one run. apart: this
// one is of several that nobody launches.
func (f *auditFlags) serve(c *cobra.Command, apart bool) (*audit.Config, error) {
	if f.dir == "" && f.run != "" {
		return nil, cli.Usagef("--audit-run has no effect without --audit: name the directory of the records")
	}
	a, err := f.describe(c)
	if err != nil || a == nil {
		return nil, err
	}
	if f.run == "" && apart {
		return nil, cli.Usagef("--audit without --audit-run, for servers that are started one by one: each would record a run of its own; give all of them the same --audit-run NAME")
	}
	if f.run != "" {
		a.Run = f.run
	} else if err := c.Flags().Set("audit-run", a.Run); err != nil {
		return nil, err
	}
	if err := a.Validate(); err != nil {
		return nil, cli.Usagef("--audit-run: %w", err)
	}
	return a, nil
}

// describe gives the job's part, nil where nothing is recorded.
func (f *auditFlags) describe(c *cobra.Command) (*audit.Config, error) {
	if f.dir == "" {
		for _, name := range []string{"audit-rate", "audit-limit"} {
			if c.Flags().Changed(name) {
				return nil, cli.Usagef("--%s has no effect without --audit: name the directory of the records", name)
			}
		}
		return nil, nil
	}
	if _, err := audit.NewSample(f.rate); err != nil {
		return nil, cli.Usagef("--audit-rate %v: want more than 0 and at most 1", f.rate)
	}
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return nil, err
	}
	a := &audit.Config{Dir: dir, Rate: f.rate, Limit: int64(f.limit), Run: audit.NewRun(time.Now())}
	if err := a.Validate(); err != nil {
		return nil, cli.Usagef("--audit-limit: %w", err)
	}
	return a, nil
}
