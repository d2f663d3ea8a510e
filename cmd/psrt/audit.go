package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/sched/audit/judge"
	"psrt/sched/train"
)

func newAudit() *cobra.Command {
	var asJSON, run string
	var staleness int
	sync := cli.NewChoice("", "", train.BSP, train.SSP, train.ASP)
	c := &cobra.Command{
		Use: "audit DIR", Short: "Judge whether a recorded job kept its promise", Args: oneDirectory,
		Long: `Read what psrt train --audit recorded, and decide whether the servers kept the
promise of the job's --sync: every acknowledged push is in its rows once, every
pull saw all that its clock asks for (bsp: and nothing else), no worker went back
behind what it had seen or pushed, and every recorded value is, bit for bit, the
one of the version that its answer names: none stale, torn or of another row.

Where ranks ran on several hosts, put their records into one directory. Exit 3
means that a promise was broken; the pull and the push concerned are named. What
could not be judged, and why, is said too.`,
		Example: `  psrt train --data train.libffm --sync bsp --workers 4 --audit records
  psrt audit records
  psrt audit records --json | jq '.runs[].violations'
  psrt audit records --sync ssp --staleness 2   (would it have kept this promise?)`,
	}
	fl := c.Flags()
	fl.StringVar(&asJSON, "json", "", "print one JSON object on stdout, or into `file`")
	fl.Lookup("json").NoOptDefVal = "-"
	fl.Var(sync, "sync", "judge by this promise (that of the job)")
	fl.IntVar(&staleness, "staleness", 0, "with --sync ssp: steps that workers may be apart")
	fl.StringVar(&run, "run", "", "the one `run` to judge (all in the directory)")
	c.RunE = func(c *cobra.Command, args []string) error {
		opt := judge.Options{Run: run}
		switch {
		case staleness < 0 || c.Flags().Changed("staleness") && sync.Value != train.SSP:
			return cli.Usagef("--staleness %d: want 0 or more, with --sync ssp", staleness)
		case sync.Value == train.ASP:
			staleness = -1
			fallthrough
		case sync.Value != "":
			opt.Promise = &staleness
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		rep, err := judge.Dir(ctx, args[0], opt)
		if err != nil {
			return cli.InterruptedOr(ctx, err)
		}
		out, err := cli.OpenOutput("json", asJSON)
		if err != nil {
			return err
		}
		if out != nil {
			err = errors.Join(json.NewEncoder(out).Encode(rep), out.Close())
		} else {
			printAudit(rep)
		}
		if err == nil && !rep.Consistent {
			err = brokenPromise{fmt.Errorf("%s: %s", args[0], firstBroken(rep))}
		}
		return err
	}
	return c
}

func oneDirectory(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.Usagef("psrt audit takes one directory, that of psrt train --audit, not %d", len(args))
	}
	return nil
}

// brokenPromise is the exit code that the contract names.
type brokenPromise struct{ error }

func (brokenPromise) CommandExit() int { return 3 }

func firstBroken(rep *judge.Report) string {
	for _, r := range rep.Runs {
		if !r.Consistent {
			return fmt.Sprintf("run %s broke the promise of %s %d times, first: %s", r.Run, r.Consistency, r.Broken, r.Violations[0])
		}
	}
	return ""
}

func printAudit(rep *judge.Report) {
	for _, r := range rep.Runs {
		word := "kept"
		if !r.Consistent {
			word = "BROKEN"
		}
		fmt.Printf("run %s: %s %s\n", r.Run, r.Consistency, word)
		fmt.Printf("  %d workers, %d lanes, %d steps; judged: %d pushes and %d pulls (each of one lane), %d values of %d keys\n",
			r.Workers, r.Lanes, r.Steps, r.Pushes, r.Pulls, r.Values, r.Keys)
		if r.Unjudged > 0 {
			fmt.Printf("  not judged: %d pushes and pulls\n", r.Unjudged)
		}
		for _, n := range r.Notes {
			fmt.Printf("  note: %s\n", n)
		}
		for _, v := range r.Violations {
			fmt.Printf("  %s\n", v)
		}
		if n := r.Broken - len(r.Violations); n > 0 {
			fmt.Fprintf(os.Stdout, "  and %d more\n", n)
		}
	}
}
