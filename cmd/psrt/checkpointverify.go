package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/tiers/ckpt"
)

func newCheckpointVerify() *cobra.Command {
	f := &checkpointFlags{}
	c := &cobra.Command{
		Use: "verify PLACE", Short: "Check every byte of a history", Args: places(1),
		Long: `Read everything and compare: manifests and the chain of their digests, checksums
and SHA-256 of every part, that the parts cover every slot once, and that the
rows of each chain are as many, and have the digest, as was stated when it was
written. All problems are named; any makes the exit code 2.

` + locationHelp,
		Example: `  psrt checkpoint verify history
  psrt checkpoint verify history --json | jq .problems`,
	}
	f.register(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		r, err := ckpt.VerifyAll(ctx, args[0], f.threads)
		if err != nil {
			return badPlace(cli.InterruptedOr(ctx, err))
		}
		out, err := cli.OpenOutput("json", f.json)
		if err != nil {
			return err
		}
		if out != nil {
			err = errors.Join(json.NewEncoder(out).Encode(verdict(args[0], r)), out.Close())
		} else if len(r.Problems) == 0 {
			fmt.Printf("%s: %d generations, %d parts, %d bytes: all is as it was written\n", args[0], r.Generations, r.Parts, r.Bytes)
			for _, n := range slices.Sorted(maps.Keys(r.Models)) {
				fmt.Printf("generation %d is the model with digest %s\n", n, r.Models[n])
			}
		} else {
			for _, p := range r.Problems {
				fmt.Fprintf(os.Stderr, "psrt: %v\n", p)
			}
		}
		if n := len(r.Problems); err == nil && n > 0 {
			err = cli.Usagef("%s: %d problems in %d generations; what does not descend from a damaged generation can be used, psrt checkpoint ls shows what follows what", args[0], n, r.Generations)
		}
		return err
	}
	return c
}

// verdict is verify's JSON.
func verdict(place string, r *ckpt.Report) any {
	type problem struct {
		Generation uint64 `json:"generation,omitempty"`
		Path       string `json:"path,omitempty"`
		Error      string `json:"error"`
	}
	list := []problem{}
	for _, p := range r.Problems {
		one := problem{Generation: p.Number, Error: p.Err.Error()}
		var damage *ckpt.CorruptError
		if errors.As(p.Err, &damage) {
			one.Path = damage.Path
		}
		list = append(list, one)
	}
	return map[string]any{"place": place, "ok": len(list) == 0, "generations": r.Generations, "parts": r.Parts, "bytes": r.Bytes,
		"digests": append([]uint64{}, r.Digests...), "models": r.Models, "problems": list}
}
