package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"psrt/bench/chain"
	"psrt/bench/child"
	"psrt/bench/report"
	"psrt/cmd/internal/cli"
)

// chainPart is the hidden command that is the other processes.
const chainPart = "chain-part"

func newChain() *cobra.Command {
	o := &options{}
	cfg := chain.Config{}
	link := cli.NewChoice(chain.LinkVeth, chain.LinkVeth, chain.LinkNone)
	rate, bytes, state, queue := bits(100e6), cli.Bytes(1<<20), cli.Bytes(32<<20), cli.Bytes(512<<10)
	c := &cobra.Command{
		Use: "chain", Args: noArgs, Short: "Chain: what replicas cost, and what a server's death and a server more do to pulls and pushes",
		Long: `goodput: one worker pushes to one server and to a chain of three in turns.
failover: head, middle and tail of a chain are killed one after the other, and
started again; how long pulls and pushes stand still, and when there are three
replicas again, beside what the size of the state and the link's rate predict.
full: the same while pushes fill the link; only where it is asked for, as a copy
has an eighth of the link then.
move: a server is added, and pulls are timed while groups move to it.

Worker and servers are processes in network namespaces with a switch between them,
whose ports have a rate and a queue. psbench makes these and they end with it. That
takes root (or CAP_SYS_ADMIN and CAP_NET_ADMIN, or a kernel that lets users make
namespaces) and iproute2; --link none measures over loopback and takes nothing.

The cores of this machine are the link, the switch and all processes: on two of
them a rate above 100mbit measures these, and TCP bbr, which hands over small
pieces at moments of its own, takes them sooner (--congestion reno).`,
		Example: `  psbench chain
  psbench chain --parts goodput --rate 1gbit --congestion reno --rounds 9
  psbench chain --parts failover,move --state 256M --json chain.json
  psbench chain --parts full --state 16M --bytes 256K --rate 100mbit`,
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.StringSliceVar(&cfg.Parts, "parts", []string{chain.Goodput, chain.Failover, chain.Move}, "what is measured: "+strings.Join(chain.Parts, ", "))
	fl.Var(&bytes, "bytes", "gradients of a push, in rows of 256 bytes")
	fl.IntVar(&cfg.Depth, "depth", 4, "pushes on their way")
	fl.DurationVar(&cfg.Duration, "duration", 2*time.Second, "of each window of pushes, and of pulls before a fault")
	fl.IntVar(&cfg.Rounds, "rounds", 3, "windows of either kind, which take turns, and kills of each member; the medians are shown")
	fl.Var(&state, "state", "values that a server started again has to get back")
	fl.Var(link, "link", "veth, a link of its own; none, loopback")
	fl.Var(&rate, "rate", "of the link towards each process, in bit/s, such as 500mbit or 2gbit")
	fl.Var(&queue, "queue", "bytes that a port of the switch holds before it drops")
	fl.StringVar(&cfg.Congestion, "congestion", "", "TCP's congestion `control` on the link, such as reno (the system's)")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		cfg.Bytes, cfg.StateBytes, cfg.QueueBytes, cfg.RateBits, cfg.Link = int(bytes), int(state), int(queue), int64(rate), link.Value
		return cli.InterruptedOr(ctx, o.runChain(ctx, cfg))
	}
	return c
}

func (o *options) runChain(ctx context.Context, cfg chain.Config) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := o.checked(); err != nil {
		return err
	}
	cfg.Seed, cfg.Part = o.seed, child.Command{Path: self, Args: []string{chainPart}}
	var seen func(string)
	if term.IsTerminal(int(os.Stderr.Fd())) {
		seen = func(step string) { fmt.Fprintln(os.Stderr, step) }
	}
	return o.measure(cfg.Check(), func() (*report.Report, error) { return chain.Run(ctx, cfg, seen) })
}

func newChainPart() *cobra.Command {
	return &cobra.Command{
		Use:    chainPart + " ROLE",
		Short:  "Another process of chain; started by psbench itself",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return chain.ServePart(args[0], os.Stdin, os.Stdout) },
	}
}
