package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"psrt/bench/lab"
	"psrt/cmd/internal/cli"
)

func newTest() *cobra.Command {
	o, t := &options{}, &lab.Tests{}
	var run string
	var short bool
	c := &cobra.Command{
		Use:   "test [flags] PACKAGE[:RUN]... [-- -test.FLAG...]",
		Short: "Run packages' tests, all in one machine; a skipped test is a failure",
		Example: `  pslab test ./rdma/verbs
  pslab test --race --run Connect -v ./rdma/verbs ./csrc/verbs
  pslab test ./rdma/verbs ./nccl/ring:TestConformance`,
		RunE: func(c *cobra.Command, args []string) error {
			t.Packages = args
			if at := c.ArgsLenAtDash(); at >= 0 {
				t.Packages, t.Args = args[:at], args[at:]
			}
			if len(t.Packages) == 0 {
				return cli.Usagef("no package given; see %s --help", c.CommandPath())
			}
			if run != "" {
				t.Args = append(t.Args, "-test.run="+run)
			}
			if short {
				t.Args = append(t.Args, "-test.short")
			}
			return o.test(t)
		},
	}
	o.register(c)
	fl := c.Flags()
	fl.SetInterspersed(true)
	fl.BoolVar(&t.Race, "race", false, "with the race detector")
	fl.StringVar(&t.Tags, "tags", "", "build tags")
	fl.StringVar(&run, "run", "", "only tests that match the `pattern`")
	fl.BoolVar(&short, "short", false, "the tests' short form")
	fl.BoolVarP(&t.Verbose, "verbose", "v", false, "show all output")
	return c
}

func (o *options) test(t *lab.Tests) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	t.Root, t.Env, t.Timeout = dir, os.Environ(), max(o.timeout-10*time.Second, time.Second)
	t.Go = "go"
	if own := filepath.Join(lab.Checkout(dir), ".cache/bin/go"); executable(own) {
		t.Go = own // as .ci/deps.sh chose it
	}
	// Below the temporary folder, which the machine sees: it has the host's root.
	tmp, err := os.MkdirTemp("", "pslab-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	interruptible, stop := cli.Interruptible()
	programs, err := t.Compile(interruptible, tmp)
	err = cli.InterruptedOr(interruptible, err)
	stop()
	if err != nil {
		return err
	}
	return o.within(func(ctx context.Context, m lab.Machine) error {
		failed := 0
		for _, p := range programs {
			ok, err := t.Run(ctx, m, p, o.environment(m), os.Stdout, os.Stderr)
			if err != nil {
				return fmt.Errorf("%s: %w", p.Package, err)
			}
			if !ok {
				failed++
			}
		}
		if failed > 0 {
			return fmt.Errorf("the tests of %d of %d packages failed in the lab", failed, len(programs))
		}
		return nil
	})
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
