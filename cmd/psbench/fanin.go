package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"psrt/bench/child"
	"psrt/bench/fan"
	"psrt/cmd/internal/cli"
	"psrt/csrc/decimal"
)

// fanInPart is the hidden command that is the other processes.
const fanInPart = "fanin-part"

// fanInFlags are those of fanin alone.
type fanInFlags struct {
	cfg          fan.Config
	mode, link   *cli.Choice
	rate         bits
	bytes, queue cli.Bytes
}

func newFanIn() *cobra.Command {
	o := &options{transport: cli.NewChoice("tcp", "tcp", "verbs")}
	f := &fanInFlags{
		mode: cli.NewChoice("both", "granted", "blast", "both"), link: cli.NewChoice("", "", fan.LinkVeth, fan.LinkNone),
		rate: 1e9, bytes: 1 << 20, queue: 512 << 10,
	}
	c := &cobra.Command{
		Use: "fanin", Args: noArgs, Short: "Fan-in: many workers that push to one server through one link, and a small pull beside them",
		Long: `Workers push large dense gradients to one server as fast as they can, while a
probe pulls 256 bytes again and again. Workers and server are processes in two
network namespaces; between them is a switch, whose port to the server has a
rate and a queue. psbench makes these and they end with it. That takes root (or
CAP_SYS_ADMIN and CAP_NET_ADMIN, or a kernel that lets users make namespaces)
and iproute2; --link none measures over loopback and takes nothing.

granted: the server asks for what its link can carry (docs/fan-in.md); blast: for
everything at once. The limit is one plain TCP stream over the same link.`,
		Example: `  psbench fanin
  psbench fanin --rate 2gbit --queue 256K --workers 1,8,64 --duration 5s
  psbench fanin --mode granted --link none --json fanin.json
  make lab CMD="bin/psbench fanin --transport verbs --workers 1,4,16"`,
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.Var(o.transport, "transport", "what moves the bytes")
	fl.Var(f.mode, "mode", "how the server fetches; both take turns")
	fl.IntSliceVar(&f.cfg.Workers, "workers", []int{1, 2, 4, 8, 16, 32, 64}, "workers that push, each number measured in turn")
	fl.Var(&f.bytes, "bytes", "size of a push")
	fl.IntVar(&f.cfg.Depth, "depth", 2, "pushes that a worker has on their way")
	fl.DurationVar(&f.cfg.Duration, "duration", time.Second, "measure each point for so long; longer where workers would push less than 6 times")
	fl.IntVar(&f.cfg.Rounds, "rounds", 1, "rounds of all points, in which the modes take turns; the medians are shown")
	fl.Var(f.link, "link", "veth, a link of its own; none, loopback or the RDMA devices' wire (veth for tcp, none for verbs)")
	fl.Var(&f.rate, "rate", "of the link towards the server, in bit/s, such as 500mbit or 2gbit")
	fl.Var(&f.queue, "queue", "bytes that the switch's port to the server holds before it drops")
	fl.DurationVar(&f.cfg.Delay, "latency", 0, "added on the way back from the server (needs the kernel's sch_netem)")
	fl.StringVar(&f.cfg.Congestion, "congestion", "", "TCP's congestion `control` on the link, such as reno (the system's)")
	o.verbs.add(fl)
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		return cli.InterruptedOr(ctx, o.runFanIn(ctx, f))
	}
	return c
}

func (o *options) runFanIn(ctx context.Context, f *fanInFlags) error {
	cfg, err := o.fanIn(f)
	if err != nil {
		return err
	}
	if err := o.open(); err != nil {
		return err
	}
	var seen func(*fan.Point)
	if term.IsTerminal(int(os.Stderr.Fd())) {
		seen = func(p *fan.Point) {
			fmt.Fprintf(os.Stderr, "%s, %d workers: %.1f MB/s, pull p99 %.0f us\n", p.Mode, p.Workers, p.Goodput/1e6, p.Loaded.P99)
		}
	}
	r, err := fan.Run(ctx, cfg, seen)
	if err != nil {
		return err
	}
	return o.finish(r)
}

// fanIn checks the flags' values.
func (o *options) fanIn(f *fanInFlags) (fan.Config, error) {
	cfg := f.cfg
	self, err := os.Executable()
	if err != nil {
		return cfg, err
	}
	if err := o.checked(); err != nil {
		return cfg, err
	}
	cfg.Transport, cfg.Seed, cfg.Part = o.transport.Value, o.seed, child.Command{Path: self, Args: []string{fanInPart}}
	cfg.Bytes, cfg.QueueBytes, cfg.RateBits, cfg.Link = int(f.bytes), int(f.queue), int64(f.rate), f.link.Value
	if cfg.Modes = []string{f.mode.Value}; f.mode.Value == "both" {
		cfg.Modes = []string{"granted", "blast"}
	}
	if cfg.Link == "" {
		cfg.Link = fan.LinkVeth
		if cfg.Transport == "verbs" {
			cfg.Link = fan.LinkNone
		}
	}
	if cfg.Transport == "verbs" {
		cfg.Port, cfg.GIDIndex, cfg.SpinMicros, cfg.Congestion = o.verbs.port, o.verbs.gidIndex, o.verbs.spinMicros, ""
		if cfg.GIDIndex < -1 || cfg.GIDIndex > 255 {
			return cfg, cli.Usagef("--gid-index %d: want 0 to 255, or -1 to have it found", cfg.GIDIndex)
		}
		if cfg.WorkerDevice, cfg.ServerDevice, err = o.verbs.names(); err != nil {
			return cfg, err
		}
	}
	if err := cfg.Check(); err != nil {
		return cfg, cli.Usagef("%w", err)
	}
	return cfg, nil
}

func newFanInPart() *cobra.Command {
	return &cobra.Command{
		Use:    fanInPart + " ROLE",
		Short:  "Another process of fanin; started by psbench itself",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return fan.ServePart(args[0], os.Stdin, os.Stdout) },
	}
}

// bits is a flag for a rate such as 2gbit, with tc's units.
type bits int64

var bitUnits = []struct {
	suffix string
	factor float64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}, {"g", 1e9}, {"m", 1e6}, {"k", 1e3}, {"", 1}}

func (b *bits) Set(s string) error {
	for _, u := range bitUnits {
		if digits, ok := strings.CutSuffix(strings.ToLower(s), u.suffix); ok {
			f, err := decimal.Float(strings.TrimSpace(digits), 64)
			if err != nil || !(f > 0 && f*u.factor <= 1e15) {
				return fmt.Errorf("%q is not a rate such as 500mbit or 2gbit", s)
			}
			*b = bits(f * u.factor)
			return nil
		}
	}
	return fmt.Errorf("%q is not a rate", s)
}

func (b *bits) String() string {
	for _, u := range bitUnits[:3] {
		if v := float64(*b); v >= u.factor {
			return strconv.FormatFloat(v/u.factor, 'g', -1, 64) + u.suffix
		}
	}
	return strconv.FormatInt(int64(*b), 10) + "bit"
}

func (b *bits) Type() string { return "rate" }
