package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"psrt/bench/lab"
	"psrt/cmd/internal/cli"
)

// options are the flags that all subcommands have.
type options struct {
	vm, numa    bool
	accel       *cli.Choice
	memory      cli.Bytes
	cpus        int
	timeout     time.Duration
	bootTimeout time.Duration
	shares      []string
	env         []string
	quiet       bool
}

func (o *options) register(c *cobra.Command) {
	d := lab.Defaults()
	o.accel = cli.NewChoice("auto", "auto", "kvm", "tcg")
	o.memory = cli.Bytes(d.MemoryMiB) << 20
	fl := c.Flags()
	fl.SortFlags = false
	fl.SetInterspersed(false) // what follows the first argument is the command's
	fl.BoolVar(&o.vm, "vm", false, "boot the virtual machine even if this machine has an RDMA device")
	fl.BoolVar(&o.numa, "numa", false, "two NUMA nodes, where the lab is a virtual machine")
	fl.DurationVar(&o.timeout, "timeout", 10*time.Minute, "end everything after so long")
	fl.DurationVar(&o.bootTimeout, "boot-timeout", d.BootTimeout, "how long the machine may take to come up")
	fl.Var(o.accel, "accel", "how the machine runs; auto: kvm if a probe shows that it boots")
	fl.Var(&o.memory, "memory", "the machine's memory")
	fl.IntVar(&o.cpus, "cpus", d.CPUs, "the machine's processors")
	fl.StringArrayVar(&o.shares, "share", nil, "a further `folder` that commands may write to (the checkout always is)")
	fl.StringArrayVar(&o.env, "env", nil, "a further variable, `NAME=VALUE`, or NAME to hand it on")
}

func newRun() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT]...",
		Short: "Run a command; its output and exit code are this one's",
		Args:  someCommand,
		RunE:  func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	o.register(c)
	return c
}

func newExec() *cobra.Command {
	o := &options{quiet: true}
	c := &cobra.Command{
		Use:   "exec [flags] PROGRAM [ARGUMENT]...",
		Short: "Run a command and add no word: for go test -exec",
		Args:  someCommand,
		RunE:  func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	o.register(c)
	return c
}

func someCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cli.Usagef("no command given; see %s --help", c.CommandPath())
	}
	return nil
}

// exit is the command's own exit code.
type exit int

func (e exit) Error() string    { return fmt.Sprintf("exit code %d", int(e)) }
func (e exit) CommandExit() int { return int(e) }

func (o *options) run(args []string) error {
	return o.within(func(ctx context.Context, m lab.Machine) error {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		code, err := m.Run(ctx, lab.Command{Args: args, Dir: dir, Env: o.environment(m), Stdout: os.Stdout, Stderr: os.Stderr})
		if err == nil && code != 0 {
			err = &cli.Reported{Err: exit(code)}
		}
		return err
	})
}

// within opens a machine, uses it and closes it. A fault of the machine counts
// more than what use says.
func (o *options) within(use func(ctx context.Context, m lab.Machine) error) error {
	interruptible, stop := cli.Interruptible()
	defer stop()
	ctx, cancel := context.WithTimeoutCause(interruptible, o.timeout, &expired{o.timeout})
	defer cancel()
	cfg, err := o.config()
	if err != nil {
		return err
	}
	m, err := lab.Open(ctx, cfg)
	if err != nil {
		return cli.InterruptedOr(ctx, err)
	}
	began := time.Now()
	err = use(ctx, m)
	used := time.Since(began)
	report, closeErr := m.Close()
	fmt.Fprintf(cfg.Log, "lab: ran %.1f s, gone after %.1f s; the devices sent %d packets, the link between them carried %d\n",
		used.Seconds(), (time.Since(began) - used).Seconds(), report.DevicePackets, report.LinkPackets)
	if closeErr != nil {
		// Without err, whose exit code would be taken for this one's.
		return closeErr
	}
	return cli.InterruptedOr(ctx, err)
}

// expired is the end of --timeout.
type expired struct{ after time.Duration }

func (e *expired) Error() string { return fmt.Sprintf("not done after %v: see --timeout", e.after) }
func (e *expired) Unwrap() error { return context.DeadlineExceeded }

func (o *options) config() (cfg lab.Config, err error) {
	cfg = lab.Defaults()
	if cfg.Guest, err = os.Executable(); err != nil {
		return cfg, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return cfg, err
	}
	cfg.Shares = []string{lab.Checkout(dir)}
	for _, s := range o.shares {
		path, err := filepath.Abs(s)
		if err != nil {
			return cfg, cli.Usagef("--share %s: %w", s, err)
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return cfg, cli.Usagef("--share %s: not a folder", s)
		}
		cfg.Shares = append(cfg.Shares, path)
	}
	cfg.Cache = lab.DefaultCache(os.Getenv)
	cfg.ForceVM, cfg.NUMA, cfg.CPUs, cfg.MemoryMiB, cfg.BootTimeout = o.vm, o.numa, o.cpus, int(o.memory>>20), o.bootTimeout
	if cfg.Accel = o.accel.Value; cfg.Accel == "auto" {
		cfg.Accel = ""
	}
	cfg.Log = os.Stderr
	if o.quiet {
		cfg.Log = io.Discard
	}
	return cfg, nil
}

func (o *options) environment(m lab.Machine) []string {
	return lab.Environment(os.Environ(), o.env, m.Env())
}
