package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/tiers/ckpt"
)

// generation is a line of ls.
type generation struct {
	Number   uint64          `json:"generation"`
	Kind     string          `json:"kind,omitempty"`
	Parent   uint64          `json:"parent,omitempty"`
	Merged   uint64          `json:"merged,omitempty"` // the generation whose chain it is the sum of
	Step     int64           `json:"step"`
	Rows     int64           `json:"rows"` // of a delta: changed
	Deleted  int64           `json:"deleted"`
	Bytes    int64           `json:"bytes"`
	Time     string          `json:"time,omitempty"`
	For      string          `json:"for,omitempty"` // training, serving
	Quantise string          `json:"quantise,omitempty"`
	Compress string          `json:"compress,omitempty"`
	SHA256   string          `json:"sha256,omitempty"`
	Digest   string          `json:"digest,omitempty"`
	Position json.RawMessage `json:"position,omitempty"`
	Error    string          `json:"error,omitempty"`
}

func newCheckpointList() *cobra.Command {
	f := &checkpointFlags{}
	c := &cobra.Command{
		Use: "ls PLACE", Aliases: []string{"list"}, Short: "List the generations of a history", Args: places(1),
		Long: "List what was committed, oldest first. Manifests are checked, parts are not read\n(psrt checkpoint verify does that).\n\n" + locationHelp,
		Example: `  psrt checkpoint ls history
  psrt checkpoint ls history --json | jq '.generations[-1].step'`,
	}
	f.register(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		entries, damage := ckpt.List(ctx, args[0])
		if len(entries) == 0 && damage != nil {
			return badPlace(cli.InterruptedOr(ctx, damage))
		}
		out, err := cli.OpenOutput("json", f.json)
		if err != nil {
			return err
		}
		list, broken := []generation{}, damage
		for _, e := range entries {
			list = append(list, generationOf(e))
			broken = errors.Join(broken, e.Err)
		}
		if out != nil {
			err = errors.Join(json.NewEncoder(out).Encode(map[string]any{"place": args[0], "generations": list}), out.Close())
		} else {
			err = printGenerations(os.Stdout, list)
		}
		return errors.Join(err, broken)
	}
	return c
}

func generationOf(e ckpt.Entry) generation {
	g := generation{Number: e.Number}
	if e.Err != nil {
		g.Error = e.Err.Error()
	}
	m := e.Manifest
	if m == nil {
		return g
	}
	g.Kind, g.Step, g.Bytes, g.Time, g.Quantise, g.Compress, g.SHA256, g.Digest, g.Position = m.Kind, m.Step, m.Bytes(), m.Time, m.Quantise, m.Compress, m.SHA256, m.Digest, m.Position
	if g.Kind == "" {
		g.Kind = "model"
	}
	if g.For = "training"; m.WeightsOnly {
		g.For = "serving"
	}
	if m.Parent != nil {
		g.Parent = m.Parent.Number
	}
	if m.Merged != nil {
		g.Merged = m.Merged.Number
	}
	for i := range m.Tables {
		g.Rows += m.Rows(m.Tables[i].ID)
	}
	for _, p := range m.Parts {
		g.Deleted += p.Deleted
	}
	return g
}

func printGenerations(to io.Writer, list []generation) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "generation\tkind\tparent\tstep\trows\tdeleted\tbytes\ttime\tfor\t")
	for _, g := range list {
		if g.Kind == "" {
			fmt.Fprintf(w, "%d\tdamaged\t\t\t\t\t\t\t\t\n", g.Number)
			continue
		}
		use, parent := g.For, "-"
		if g.Quantise != "" {
			use += " " + g.Quantise
		}
		if g.Compress != "" {
			use += " " + g.Compress
		}
		switch {
		case g.Parent != 0:
			parent = strconv.FormatUint(g.Parent, 10)
		case g.Merged != 0:
			parent = fmt.Sprintf("(%d)", g.Merged)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t\n", g.Number, g.Kind, parent, g.Step, g.Rows, g.Deleted, g.Bytes, localTime(g.Time), use)
	}
	return w.Flush()
}

// localTime is a time as people at this machine read it.
func localTime(s string) string {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}
