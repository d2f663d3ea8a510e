package main

import (
	"strings"

	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/clock"
	"psrt/sched/train"
)

// syncFlags say how stale tables may be.
type syncFlags struct {
	sync   *cli.Choice
	bound  boundFlag
	tables tableSync
}

func (f *syncFlags) register(fl *pflag.FlagSet) {
	f.sync = cli.NewChoice(train.ASP, train.BSP, train.SSP, train.ASP)
	fl.Var(f.sync, "sync", "consistency: bulk synchronous, bounded staleness, asynchronous")
	fl.Var(&f.bound, "staleness", "clocks that workers may be apart with --sync ssp (0 equals bsp); MIN-MAX: as few as cost no waiting")
	fl.Var(&f.tables, "table-sync", "consistency of single tables: embedding (the rows) or dense, as in dense=bsp,embedding=ssp:4 (as --sync)")
}

// describe fills in the job's part.
func (f *syncFlags) describe(j *train.Job) {
	j.Sync, j.Staleness, j.TableSync = f.sync.Value, f.bound.Most, f.tables
	if f.bound.Moves() {
		j.StalenessLeast = &f.bound.Least
	}
}

// boundFlag is a staleness, or the least and the most.
type boundFlag struct{ clock.Mode }

// Set reads what the user says.
func (f *boundFlag) Set(s string) (err error) {
	f.Mode, err = clock.ParseBound(s)
	return err
}

// String is what Set reads.
func (f *boundFlag) String() string { return f.Steps() }

// Type is what --help shows.
func (f *boundFlag) Type() string { return "steps" }

// tableSync is modes by the names of tables.
type tableSync clock.ByTable

// Set reads what the user says, one table or several; it may be given again.
func (t *tableSync) Set(s string) error {
	if *t == nil {
		*t = tableSync{}
	}
	for one := range strings.SplitSeq(s, ",") {
		name, mode, ok := strings.Cut(one, "=")
		if !ok {
			return cli.Usagef("%q: want TABLE=MODE, as in dense=bsp or embedding=ssp:4", one)
		}
		m, err := clock.ParseMode(mode)
		if err != nil {
			return err
		}
		(*t)[name] = m
	}
	return nil
}

// String is what Set reads.
func (t *tableSync) String() string { return clock.ByTable(*t).String() }

// Type is what --help shows.
func (t *tableSync) Type() string { return "table=mode,..." }
