package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/sched/place"
	"psrt/tiers/export"
)

func newImport() *cobra.Command {
	var text, out, asJSON string
	memory := cli.Bytes(export.DefaultMemory)
	c := &cobra.Command{
		Use:   "import",
		Short: "Make a model of text that psrt export wrote",
		Long: `Reads what psrt export --format text wrote, as it is or edited, and writes a model
directory. Of text with --state it is the model that was exported, with the same
digest, and can be trained further; of text without it is for psrt eval, predict
and export.

Whoever edits a file shortens its last line to #end, since the checksum there is
no longer true.`,
		Example: `  psrt import --text dump --out model
  psrt import --text dump/emb.tsv,dump/dense.tsv --out model`,
	}
	c.Flags().StringVar(&text, "text", "", "text `exports`, or files of one, comma separated")
	c.Flags().StringVar(&out, "out", "", "`directory` for the model: new, empty, or with a model of psrt, which is replaced")
	c.Flags().Var(&memory, "memory", "memory for sorting; larger tables are sorted on the disk of --out")
	cli.ZeroIsUnset(c.Flags(), "memory")
	c.Flags().StringVar(&asJSON, "json", "", "print one JSON object on stdout, or into `file`")
	c.Flags().Lookup("json").NoOptDefVal = "-"
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case text == "":
			return cli.Usagef("--text is missing: the directory that psrt export --format text wrote, or files of it")
		case out == "":
			return cli.Usagef("--out is missing: a directory for the model")
		}
		if err := replaceable(c, "out", out); err != nil {
			return err
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		report, err := cli.OpenOutput("json", asJSON)
		if err != nil {
			return err
		}
		got, err := export.Import(ctx, paths(text), out, export.ImportOptions{Slots: place.DefaultSlots, Memory: int64(memory)})
		if errors.Is(err, os.ErrNotExist) {
			return cli.Usagef("--text: %w", err)
		}
		if err != nil {
			return cli.InterruptedOr(ctx, err)
		}
		if report != nil {
			return errors.Join(json.NewEncoder(report).Encode(got), report.Close())
		}
		printImported(out, got)
		return nil
	}
	return c
}

func printImported(out string, got *export.Imported) {
	fmt.Printf("model in %s: %d tables with %d rows, %d dense vectors\n", out, got.Tables, got.Rows, got.Dense)
	switch {
	case got.WeightsOnly:
		fmt.Println("without optimizer state: for eval, predict and export")
	case got.Edited, got.Partial:
		fmt.Printf("digest       %s (edited or in part: not the model that was exported)\n", got.Digest)
	case got.Exported == "":
		fmt.Printf("digest       %s (of what was exported none is known)\n", got.Digest)
	default:
		fmt.Printf("digest       %s, as it was exported\n", got.Digest)
	}
}
