package main

import (
	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/sched/train/model"
)

// withoutEffect refuses settings of the network that the user gave, as flags or
// in --config, to a kind of model that does not have them: who gives one
// believes that it does something. Switched off (0, false) they are let pass.
func (f *trainFlags) withoutEffect(c *cobra.Command) error {
	spec := model.Spec{Kind: f.model.Value}
	for _, s := range []struct {
		flag string
		on   bool
		used bool
		by   string
	}{
		{"hidden", true, spec.Deep(), "widedeep, deepfm and dcn"},
		{"dropout", f.dropout != 0, spec.Deep(), "widedeep, deepfm and dcn"},
		{"batch-norm", f.batchNorm, spec.Deep(), "widedeep, deepfm and dcn"},
		{"cross-layers", true, spec.CrossNetwork(), "dcn"},
	} {
		if given := c.Flags().Lookup(s.flag); given.Changed && s.on && !s.used {
			return cli.Usagef("--%s %s has no effect on --model %s: leave it out, or choose one of %s", s.flag, given.Value, f.model.Value, s.by)
		}
	}
	return nil
}
