package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/tiers/ckpt"
)

func newCheckpointMerge() *cobra.Command {
	f := &checkpointFlags{}
	var keep int
	c := &cobra.Command{
		Use: "merge PLACE[@N]", Short: "Make one base of a base and its deltas", Args: places(1),
		Long: `Write a new base that is the same model, bit by bit, as the newest generation (or
N) with all that it descends from, so that it loads from fewer bytes. It becomes
the newest generation; the old ones stay unless --keep says otherwise. Nothing
else may write to the history meanwhile: a running job is told from the lock.
A job removes old chains of its own run only; --keep 1 removes those of all runs.

` + locationHelp,
		Example: `  psrt checkpoint merge history
  psrt checkpoint merge history --keep 1`,
	}
	f.register(c)
	c.Flags().IntVar(&keep, "keep", 0, "chains to keep, the newest of all runs; the others are removed (0: all are kept)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if keep < 0 {
			return cli.Usagef("--keep %d: must not be negative", keep)
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		location, number := ckpt.SplitPlace(args[0])
		if is, err := ckpt.IsHistory(ctx, location); err != nil {
			return cli.InterruptedOr(ctx, err)
		} else if !is {
			return cli.Usagef("%s holds no history; name the directory of psrt train --checkpoint", location)
		}
		h, err := ckpt.OpenHistory(ctx, location, ckpt.HistoryOptions{Keep: keep, AllRuns: true})
		if err != nil {
			return badPlace(cli.InterruptedOr(ctx, err))
		}
		m, err := h.Merge(ctx, number, f.threads)
		if err == nil {
			err = h.Trouble()
		}
		if err = errors.Join(err, h.Close()); err != nil {
			return badPlace(cli.InterruptedOr(ctx, err))
		}
		out, err := cli.OpenOutput("json", f.json)
		if err != nil {
			return err
		}
		g := generationOf(ckpt.Entry{Number: m.Number, Manifest: m})
		if out != nil {
			return errors.Join(json.NewEncoder(out).Encode(g), out.Close())
		}
		fmt.Printf("%s: generation %d is a base of %d rows, %d bytes: the sum of generation %d and what it descends from\n", location, m.Number, g.Rows, g.Bytes, g.Merged)
		return nil
	}
	return c
}
