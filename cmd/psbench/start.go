package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"psrt/bench/child"
	"psrt/bench/report"
	"psrt/bench/startup"
	"psrt/cmd/internal/cli"
)

// startPart is the hidden command that is the other processes.
const startPart = "start-part"

func newStart() *cobra.Command {
	o := &options{}
	cfg := startup.Config{}
	c := &cobra.Command{
		Use: "start", Args: noArgs, Short: "Start: from psrt train until the first step is over, and the trial of all connections",
		Long: `launch: psrt train starts servers and workers on this machine, which train one step;
in turns with it as many processes of psrt that do nothing.
preflight: ranks of psrt, each on a host of its own, try all connections to each other
before they train; how long that took is what they say.

Hosts are network namespaces, which end with psbench. They take root (or CAP_SYS_ADMIN
and CAP_NET_ADMIN, or a kernel that lets users make namespaces) and iproute2; --parts
launch takes nothing.`,
		Example: "  psbench start\n  psbench start --parts launch --servers 4 --workers 4 --rounds 9 --json start.json",
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.StringSliceVar(&cfg.Parts, "parts", startup.Parts, "what is measured: "+strings.Join(startup.Parts, ", "))
	fl.IntVar(&cfg.Servers, "servers", 2, "of the job that psrt train starts")
	fl.IntVar(&cfg.Workers, "workers", 2, "of it")
	fl.IntVar(&cfg.Hosts, "hosts", 8, "of the preflight, with a rank on each")
	fl.IntVar(&cfg.Rounds, "rounds", 5, "jobs of each kind; the medians are shown")
	fl.StringVar(&cfg.Psrt.Path, "psrt", "", "`program` that is measured; else psrt beside psbench, or the one in PATH")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		return cli.InterruptedOr(ctx, o.runStart(ctx, cfg))
	}
	return c
}

func (o *options) runStart(ctx context.Context, cfg startup.Config) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := o.checked(); err != nil {
		return err
	}
	if cfg.Psrt.Path, err = psrtProgram(cfg.Psrt.Path, self); err != nil {
		return err
	}
	made, remove, err := scratch(os.TempDir(), "psbench-start-")
	if err != nil {
		return err
	}
	defer remove()
	cfg.Seed, cfg.Dir, cfg.Part = o.seed, made[0], child.Command{Path: self, Args: []string{startPart}}
	var seen func(string)
	if term.IsTerminal(int(os.Stderr.Fd())) {
		seen = func(step string) { fmt.Fprintln(os.Stderr, step) }
	}
	return o.measure(cfg.Check(), func() (*report.Report, error) { return startup.Run(ctx, cfg, seen) })
}

// psrtProgram is the one that was named, else the one beside this program, else that in PATH.
func psrtProgram(named, self string) (string, error) {
	beside := filepath.Join(filepath.Dir(self), "psrt")
	for _, name := range []string{named, beside, "psrt"} {
		if name == "" {
			continue
		}
		path, err := exec.LookPath(name)
		if err == nil {
			return filepath.Abs(path)
		}
		if name == named {
			return "", cli.Usagef("--psrt: %w", err)
		}
	}
	return "", cli.Usagef("there is no psrt at %s, nor in PATH: give --psrt FILE (make build makes one)", beside)
}

func newStartPart() *cobra.Command { return newPart("start", startPart, startup.ServePart) }
