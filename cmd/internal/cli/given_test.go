package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A value that would mean the same as the flag left out is refused by the flag's name.
func TestGiven(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", ""}, {"--out=x --threads=2 --wait=1s", ""}, {"--seed=0", ""},
		{"--out=", `--out "": is empty`}, {"--numa=", "default, auto"}, {"--threads=0", "--threads 0: must be above 0; leave the flag out for its default, the cores"},
		{"--wait=0s", "--wait 0s: must be above 0; leave the flag out for its default, 5s"}, {"--zipf=0", "--zipf 0"},
	} {
		cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, PersistentPreRunE: func(c *cobra.Command, _ []string) error { return Given(c) }, RunE: func(*cobra.Command, []string) error { return nil }}
		fl := cmd.Flags()
		fl.String("out", "", "file")
		fl.String("numa", "auto", "node")
		fl.Int("threads", 0, "threads (the cores)")
		fl.Float64("zipf", 0, "exponent")
		fl.Uint64("seed", 0, "seed")
		fl.Duration("wait", 5e9, "a wait")
		ZeroIsUnset(fl, "threads", "zipf", "wait")
		cmd.SetArgs(strings.Fields(c.args))
		switch err := cmd.Execute(); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}
