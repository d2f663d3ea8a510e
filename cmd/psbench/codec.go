package main

import (
	"context"

	"github.com/spf13/cobra"

	"psrt/bench/codec"
	"psrt/bench/report"
	"psrt/cmd/internal/cli"
)

func newCodec() *cobra.Command {
	o := &options{}
	cfg := codec.Config{}
	volume := cli.Bytes(32 << 20)
	c := &cobra.Command{
		Use: "codec", Args: noArgs, Short: "Codec: the encodings of requests, replies and frames, beside a memcpy of the same bytes",
		Long: `What a client and a server write into each other's memory, encoded and decoded by
one thread: requests, with keys or gradients behind them, replies, and the frames
of a connection; then gradients, compressed as --compress fp16 and int8 do, twice
--volume at a time and 256 KiB, in the cache. The limit is measured in the same run: memcpy of as many bytes
between slots of the same shape, of gradients as many as the floats have. What is decoded is compared with what was
encoded, and allocations are counted.`,
		Example: "  psbench codec\n  psbench codec --keys 8000 --json codec.json\n  psbench codec --compare codec.json",
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.IntVar(&cfg.Keys, "keys", 4096, "keys behind a request")
	fl.Var(&volume, "volume", "bytes of each message kind in a round")
	fl.IntVar(&cfg.Rounds, "rounds", 7, "rounds, in which both take turns")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		cfg.Volume = int(volume)
		return cli.InterruptedOr(ctx, o.runCodec(ctx, cfg))
	}
	return c
}

func (o *options) runCodec(ctx context.Context, cfg codec.Config) error {
	if err := o.checked(); err != nil {
		return err
	}
	cfg.Seed = o.seed
	return o.measure(cfg.Check(), func() (*report.Report, error) { return codec.Run(ctx, cfg) })
}
