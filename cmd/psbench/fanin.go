package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"psrt/bench/child"
	"psrt/bench/fan"
	"psrt/cmd/internal/cli"
)

// fanSide is the hidden command that is the server's or the workers' process.
const fanSide = "fanin-side"

func newFanIn() *cobra.Command {
	o := &options{transport: cli.NewChoice("tcp", "tcp", "verbs")}
	cfg := fan.Config{}
	mode, link := cli.NewChoice("both", fan.Granted, fan.Blast, "both"), cli.NewChoice(fan.LinkVeth, fan.LinkVeth, fan.LinkNone)
	queue, bytes := cli.Bytes(512<<10), cli.Bytes(256<<10)
	gigabits := 0.0
	c := &cobra.Command{
		Use: "fanin", Args: noArgs, Short: "Fan-in: many workers push to one server over a link of limited rate",
		Long: `Workers push dense gradients to one server as fast as it lets them, through a
link of limited rate between two network namespaces that psbench makes and
removes. Beside them one worker pulls 256 bytes all the while. Shown with grants,
and without (blast). Needs root; --link none does not.`,
		Example: "  psbench fanin --workers 1,8,64\n  psbench fanin --gigabits 10 --duration 5s --json fanin.json\n  psbench fanin --link none --mode granted",
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.Var(o.transport, "transport", "what moves the bytes")
	fl.IntSliceVar(&cfg.Workers, "workers", []int{1, 4, 16, 64}, "workers that push, each `number` measured in turn")
	fl.Var(mode, "mode", "how the server fetches")
	fl.Var(link, "link", "between workers and server")
	fl.Float64Var(&gigabits, "gigabits", 1, "a second that the link carries towards the server")
	fl.Var(&queue, "queue", "bytes that the link holds before it drops")
	fl.Var(&bytes, "bytes", "of a push")
	fl.DurationVar(&cfg.Duration, "duration", time.Second, "of each measurement")
	fl.IntVar(&cfg.Rounds, "rounds", 1, "rounds, in which all take turns")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		if cfg.Modes = []string{mode.Value}; mode.Value == "both" {
			cfg.Modes = []string{fan.Granted, fan.Blast}
		}
		cfg.Link, cfg.BitsPerSec, cfg.QueueBytes, cfg.PushBytes = link.Value, int64(gigabits*1e9), int(queue), int(bytes)
		ctx, stop := cli.Interruptible()
		defer stop()
		return cli.InterruptedOr(ctx, o.runFanIn(ctx, cfg))
	}
	return c
}

func (o *options) runFanIn(ctx context.Context, cfg fan.Config) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := o.checked(); err != nil {
		return err
	}
	cfg.Transport, cfg.Seed, cfg.Child = o.transport.Value, o.seed, child.Command{Path: self, Args: []string{fanSide}}
	if cfg.Transport == "verbs" {
		cfg.Link = fan.LinkNone // the devices have a link of their own
	}
	if err := cfg.Check(); err != nil {
		return cli.Usagef("%w", err)
	}
	if err := o.open(); err != nil {
		return err
	}
	r, err := fan.Run(ctx, cfg)
	if errors.Is(err, fan.ErrLink) {
		return cli.Usagef("%w", err)
	}
	if err != nil {
		return err
	}
	return o.finish(r)
}

func newFanSide() *cobra.Command {
	return &cobra.Command{
		Use:    fanSide,
		Short:  "One side of fanin; started by psbench itself",
		Hidden: true,
		Args:   noArgs,
		RunE:   func(*cobra.Command, []string) error { return fan.Serve(os.Stdin, os.Stdout) },
	}
}
