package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/bench/child"
	"psrt/bench/micro"
	"psrt/bench/report"
	"psrt/cmd/internal/cli"
)

func newLatency() *cobra.Command {
	return newSuite(micro.SuiteLatency, "8,64,4K,64K", 10_000, &cobra.Command{
		Short: "Latency: ping-pong of writes with immediate between two processes",
		Long: `Ping-pong of writes with immediate between two processes of this machine. Times
are half round trips. The limit is measured in the same run: the bare shared
cache line for shm, a raw socket for tcp.`,
		Example: `  psbench lat --transport shm
  psbench lat --transport tcp --sizes 8,4K --iters 100000 --json lat.json
  psbench lat --transport shm --compare old.json --tolerance 0.15`,
	})
}

func newBandwidth() *cobra.Command {
	return newSuite(micro.SuiteBandwidth, "4K,64K,1M", 5_000, &cobra.Command{
		Short: "Bandwidth: windows of writes, and of reads, between two processes",
		Long: `Writes, then reads, with a window in flight, between two processes of this
machine. The limit is measured in the same run: memcpy for shm, a raw stream for
tcp.`,
		Example: `  psbench bw --transport shm --sizes 4K,64K,1M,64M
  psbench bw --transport tcp --duration 2s --csv bw.csv
  psbench bw --transport tcp --compare old.json`,
	})
}

// verbsVolume takes soft-RoCE a few seconds a row.
const verbsVolume = 64 << 20

// options are the flags that all suites have.
type options struct {
	transport          *cli.Choice
	verbs              verbsFlags
	perftest           bool
	rounds             int
	sizes              string
	iterations         int
	volume             cli.Bytes
	duration           time.Duration
	seed               uint64
	json, csv, compare string
	report             string
	tolerance          float64
	jsonFile, csvFile  io.WriteCloser
	reportFile         io.WriteCloser
	old                *report.Report
}

func newSuite(suite, sizes string, iterations int, c *cobra.Command) *cobra.Command {
	o := &options{transport: cli.NewChoice("shm", transports...)}
	c.Use, c.Args = suite, noArgs
	fl := c.Flags()
	fl.SortFlags = false
	fl.Var(o.transport, "transport", "what moves the bytes")
	o.verbs.add(fl)
	fl.BoolVar(&o.perftest, "perftest", false, "let ib_write_lat, ib_write_bw and ib_read_bw take turns (with --transport verbs)")
	fl.IntVar(&o.rounds, "rounds", 0, "rounds, in which all take turns (5; 9 with --perftest)")
	fl.StringVar(&o.sizes, "sizes", sizes, "sizes of a message, such as 64,4K,1M (`list`; K, M, G are powers of 1024)")
	fl.IntVar(&o.iterations, "iters", iterations, "messages per size, in all rounds together")
	fl.Var(&o.volume, "volume", "bytes per size at most, in all rounds together (64M over verbs, as soft-RoCE moves 10 to 50 MB/s; else any)")
	fl.DurationVar(&o.duration, "duration", 0, "measure each row for so long instead")
	o.common(fl)
	cli.ZeroIsUnset(fl, "rounds", "volume", "duration")
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		return cli.InterruptedOr(ctx, o.run(ctx, suite))
	}
	return c
}

// common are the flags of every suite: the seed, and where the report goes.
func (o *options) common(fl *pflag.FlagSet) {
	fl.Uint64Var(&o.seed, "seed", 0, "of the bytes moved; 0 chooses one")
	fl.StringVar(&o.json, "json", "", "one JSON object on standard output, or into `file`")
	fl.StringVar(&o.csv, "csv", "", "CSV on standard output, or into `file`")
	fl.StringVar(&o.report, "report", "", "a page with tables and curves into `file.html`")
	fl.Lookup("json").NoOptDefVal = "-"
	fl.Lookup("csv").NoOptDefVal = "-"
	fl.StringVar(&o.compare, "compare", "", "compare with a JSON `report` of before; exit 3 when a row is slower")
	fl.Float64Var(&o.tolerance, "tolerance", 0.1, "share of speed that a row may lose (with --compare)")
}

// listed is --sizes in bytes.
func (o *options) listed() (sizes []int, err error) {
	for _, s := range strings.Split(o.sizes, ",") {
		var b cli.Bytes
		if err := b.Set(strings.TrimSpace(s)); err != nil {
			return nil, cli.Usagef("--sizes: %w", err)
		}
		sizes = append(sizes, int(b))
	}
	return sizes, nil
}

// run measures and shows.
func (o *options) run(ctx context.Context, suite string) error {
	cfg, err := o.config(suite)
	if err != nil {
		return err
	}
	if err := o.open(); err != nil {
		return err
	}
	r, err := micro.Run(ctx, cfg)
	if err != nil {
		return err
	}
	return o.finish(r)
}

// measure refuses a configuration that is wrong, opens all files, runs and
// shows.
func (o *options) measure(wrong error, run func() (*report.Report, error)) error {
	if wrong != nil {
		return cli.Usagef("%w", wrong)
	}
	if err := o.open(); err != nil {
		return err
	}
	r, err := run()
	if err != nil {
		return err
	}
	return o.finish(r)
}

// finish shows the report and what changed.
func (o *options) finish(r *report.Report) error {
	r.Program, r.Commit = version, commit
	if err := o.write(r); err != nil || o.old == nil {
		return err
	}
	return o.compared(r)
}

// checked settles the flags that all suites have.
func (o *options) checked() error {
	if o.seed == 0 {
		o.seed = rand.Uint64()>>11 | 1 // fits a JSON number everywhere
	}
	if !(o.tolerance >= 0 && o.tolerance < 1) {
		return cli.Usagef("--tolerance %g: want 0 or more and less than 1", o.tolerance)
	}
	return nil
}

// config checks the flags' values.
func (o *options) config(suite string) (micro.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return micro.Config{}, err
	}
	if err := o.checked(); err != nil {
		return micro.Config{}, err
	}
	cfg := micro.Config{
		Suite: suite, Transport: o.transport.Value, Iterations: o.iterations, Duration: o.duration, Seed: o.seed,
		Volume: int(o.volume), Open: openDomain, Peer: child.Command{Path: self, Args: []string{peerName}},
	}
	if cfg.Transport == "verbs" {
		if cfg.Volume == 0 {
			cfg.Volume = verbsVolume
		}
		here, peer, err := o.verbs.names()
		if err != nil {
			return cfg, err
		}
		if cfg.Transport, err = o.verbs.transport(here); err != nil {
			return cfg, err
		}
		if cfg.PeerTransport, err = o.verbs.transport(peer); err != nil {
			return cfg, err
		}
	}
	cfg.Rounds = o.rounds
	if o.perftest {
		if o.transport.Value != "verbs" {
			return cfg, cli.Usagef("--perftest measures RDMA: it needs --transport verbs, not %s", o.transport.Value)
		}
		if o.rounds == 0 {
			cfg.Rounds = 9
		}
		if err := o.verbs.beside(&cfg); err != nil {
			return cfg, err
		}
	}
	if cfg.Sizes, err = o.listed(); err != nil {
		return cfg, err
	}
	if err := cfg.Check(); err != nil {
		return cfg, cli.Usagef("%w", err)
	}
	return cfg, nil
}

// open opens all files before the measuring, not after.
func (o *options) open() error {
	if o.json == "-" && o.csv == "-" {
		return cli.Usagef("--json and --csv both on standard output; give one a file")
	}
	if o.compare != "" {
		f, err := os.Open(o.compare)
		if err != nil {
			return cli.Usagef("--compare: %w", err)
		}
		defer f.Close()
		if o.old, err = report.Read(f); err != nil {
			return cli.Usagef("--compare %s: %w", o.compare, err)
		}
	}
	var err error
	if o.jsonFile, err = cli.OpenOutput("json", o.json); err != nil {
		return err
	}
	if o.csvFile, err = cli.OpenOutput("csv", o.csv); err != nil {
		return err
	}
	if o.report == "-" {
		return cli.Usagef("--report: give it a file, such as out.html")
	}
	o.reportFile, err = cli.OpenOutput("report", o.report)
	return err
}

// write shows the report in every form asked for; the table, too, unless
// standard output is taken.
func (o *options) write(r *report.Report) error {
	var errs []error
	if o.jsonFile != nil {
		errs = append(errs, r.JSON(o.jsonFile), o.jsonFile.Close())
	}
	if o.csvFile != nil {
		errs = append(errs, r.CSV(o.csvFile), o.csvFile.Close())
	}
	if o.reportFile != nil {
		errs = append(errs, r.HTML(o.reportFile), o.reportFile.Close())
	}
	if o.json != "-" && o.csv != "-" {
		errs = append(errs, r.Text(os.Stdout))
	}
	return errors.Join(errs...)
}

// compared shows what changed, on stderr where stdout is taken.
func (o *options) compared(r *report.Report) error {
	c, err := report.Compare(o.old, r, o.tolerance)
	if err != nil {
		return cli.Usagef("--compare %s: %w", o.compare, err)
	}
	w := os.Stdout
	if o.json == "-" || o.csv == "-" {
		w = os.Stderr
	}
	if err := c.Text(w); err != nil {
		return err
	}
	if n := c.Slower(); n > 0 {
		return &slower{n, len(c.Changes)}
	}
	return nil
}

// slower is the error with exit code 3.
type slower struct{ rows, of int }

func (s *slower) Error() string {
	return fmt.Sprintf("%d of %d rows are slower; measure again on an idle machine, or raise --tolerance", s.rows, s.of)
}

func (s *slower) CommandExit() int { return exitSlower }
