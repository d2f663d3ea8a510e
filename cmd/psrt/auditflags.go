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
}

func (f *auditFlags) register(fl *pflag.FlagSet) {
	f.limit = audit.DefaultLimit
	fl.StringVar(&f.dir, "audit", "", "record what is asked and answered in `directory`, at each rank's host, for psrt audit")
	fl.Float64Var(&f.rate, "audit-rate", audit.DefaultRate, "share of the keys whose values and gradients are recorded")
	fl.Var(&f.limit, "audit-limit", "most bytes of one worker's or lane's record; what follows is not judged")
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
