package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A value of the wrong kind is told of by what is wanted, and not in strconv's words.
func TestFlagsOfTheWrongKind(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"--n=x", "--n x: want a whole number"},
		{"--n=", `--n "": want a whole number`},
		{"--n=99999999999999999999", "want a number that is not so large"},
		{"--u=-1", "--u -1: want a whole number from 0 on"},
		{"--f=y", "--f y: want a number"},
		{"--d=10", "--d 10: want a time with its unit"},
		{"--b=maybe", "--b maybe: want true or false"},
		{"--size=x", "is not a size"},
	} {
		cmd := &cobra.Command{Use: "t", SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command, []string) {}}
		cmd.SetFlagErrorFunc(FlagError)
		fl := cmd.Flags()
		fl.Int("n", 1, "")
		fl.Uint64("u", 1, "")
		fl.Float64("f", 1, "")
		fl.Duration("d", 1, "")
		fl.Bool("b", false, "")
		fl.Var(new(Bytes), "size", "")
		cmd.SetArgs([]string{c.arg})
		err := cmd.Execute()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "strconv") || Exit(&strings.Builder{}, "t", err) != Usage {
			t.Errorf("%s: %v, want %q", c.arg, err, c.want)
		}
	}
}
