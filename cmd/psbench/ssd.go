package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"psrt/bench/report"
	"psrt/bench/ssd"
	"psrt/cmd/internal/cli"
)

func newSSD() *cobra.Command {
	o := &options{}
	cfg := ssd.Config{RowBytes: 256, Rows: 2_000_000, Lanes: min(4, runtime.NumCPU())}
	memory := cli.Bytes(128 << 20)
	var dirs, only string
	c := &cobra.Command{
		Use: "ssd", Args: noArgs, Short: "SSD: a table larger than its memory, beside the raw disk, Pebble and RocksDB",
		Long: `A table of which only a part fits in memory, as a server has it: rows read evenly
and by Zipf's law, read, changed and written, and written blindly, in batches of
distinct keys. Its log is overwritten first, so that compaction is at work.

The limit is measured in the same rounds: the same disk read by itself, by a bare
ring and, where it is installed, by fio. Beside it runs Pebble, a log-structured
merge tree, with as much memory; of blind writes each side's time counts until it
has merged what it had put off. All answers are compared. --rocksdb runs RocksDB's own benchmark
afterwards; --devices stripes a table over several devices, each made slow, and
holds it against one of them.

Ratios of rivals and of the limit mean something; rates are those of the disk.`,
		Example: "  psbench ssd --dirs /ssd/a\n  psbench ssd --dirs /ssd/a,/ssd/b --rows 20M --row-bytes 256 --memory 1GiB --settle 90s --json ssd.json\n  psbench ssd --dirs /ssd/a --only devices --devices 4 --limit-iops 10000\n  psbench ssd --dirs /ssd/a --pebble=false --compare old.json",
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.StringVar(&dirs, "dirs", "", "`directories` on the disks to measure, with commas between; a temporary one in each is used, and removed")
	fl.Var((*count)(&cfg.Rows), "rows", "rows of the table, such as 20M")
	fl.IntVar(&cfg.RowBytes, "row-bytes", cfg.RowBytes, "bytes of a row: half of them weights, half optimizer state")
	fl.Var(&memory, "memory", "memory of each side")
	fl.IntVar(&cfg.Lanes, "lanes", cfg.Lanes, "lanes that share our table, each with a log of its own")
	fl.IntVar(&cfg.Keys, "keys", 4096, "distinct keys of a batch")
	fl.IntVar(&cfg.InFlight, "in-flight", 4, "batches under way at a time in each lane")
	fl.IntVar(&cfg.Batches, "batches", 20, "batches of a round")
	fl.IntVar(&cfg.Rounds, "rounds", 5, "rounds, in which all take turns")
	fl.Float64Var(&cfg.Age, "age", 0.7, "rows overwritten beforehand, for each of the table")
	fl.DurationVar(&cfg.Settle, "settle", 20*time.Second, "time of each side's blind writes")
	fl.StringVar(&only, "only", "", "`operations` by name, with semicolons between; without it all")
	fl.BoolVar(&cfg.Pebble, "pebble", true, "let Pebble take turns")
	fl.DurationVar(&cfg.RocksDB, "rocksdb", 0, "run RocksDB's db_bench for this time at each operation; 0 leaves it out")
	fl.IntVar(&cfg.Devices, "devices", 0, "devices that are limited and held against one; 0 leaves it out")
	fl.Float64Var(&cfg.IOPS, "limit-iops", 10_000, "requests a second of each of them")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		cfg.Memory = int64(memory)
		if only != "" {
			cfg.Only = strings.Split(only, ";")
		}
		return cli.InterruptedOr(ctx, o.runSSD(ctx, cfg, dirs))
	}
	return c
}

func (o *options) runSSD(ctx context.Context, cfg ssd.Config, dirs string) error {
	if err := o.checked(); err != nil {
		return err
	}
	cfg.Seed = o.seed
	made, remove, err := scratch(dirs, "psbench-ssd-")
	if err != nil {
		return err
	}
	defer remove()
	cfg.Dirs = made
	started := time.Now()
	cfg.Progress = func(text string) {
		fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(started).Seconds(), text)
	}
	return o.measure(cfg.Check(), func() (*report.Report, error) { return ssd.Run(ctx, cfg) })
}

// count is a flag of how many, with K, M or G behind it for thousands and so on.
type count int

func (c *count) Set(s string) error {
	digits, unit := s, 1
	for suffix, u := range map[string]int{"K": 1e3, "M": 1e6, "G": 1e9} {
		if d, ok := strings.CutSuffix(digits, suffix); ok {
			digits, unit = d, u
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > 1<<40/unit {
		return fmt.Errorf("%q is no number such as 500000, 20M or 1G", s)
	}
	*c = count(n * unit)
	return nil
}

func (c *count) String() string { return strconv.Itoa(int(*c)) }

func (c *count) Type() string { return "count" }
