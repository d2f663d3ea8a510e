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
		{"--n=1_0", "--n 1_0: want a whole number"},
		{"--n=0x10", "--n 0x10: want a whole number"},
		{"--u=1_000", "--u 1_000: want a whole number from 0 on"},
		{"--f=1_0.5", "--f 1_0.5: want a number"},
		{"--f=0x1p-2", "--f 0x1p-2: want a number"},
		{"--size=1_0MiB", "is not a size"},
		{"--size=0x10KiB", "is not a size"},
		{"--whole=1_0", "--whole 1_0: want a whole number from 0 on"},
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
		fl.Var(new(Whole), "whole", "")
		DecimalFlags(cmd)
		cmd.SetArgs([]string{c.arg})
		err := cmd.Execute()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "strconv") || Exit(&strings.Builder{}, "t", err) != Usage {
			t.Errorf("%s: %v, want %q", c.arg, err, c.want)
		}
	}
}

// Numbers are decimal, also with zeros before them.
func TestDecimalFlags(t *testing.T) {
	root := &cobra.Command{Use: "t", SilenceErrors: true, SilenceUsage: true}
	cmd := &cobra.Command{Use: "c", Run: func(*cobra.Command, []string) {}}
	n, f, u := cmd.Flags().Int("n", 1, ""), cmd.Flags().Float64("f", 1, ""), cmd.Flags().Uint64("u", 1, "")
	root.AddCommand(cmd)
	DecimalFlags(root)
	root.SetArgs([]string{"c", "--n=-010", "--f=+1e-3", "--u=00"})
	if err := root.Execute(); err != nil || *n != -10 || *f != .001 || *u != 0 {
		t.Errorf("%d, %v, %d, %v", *n, *f, *u, err)
	}
	if got, err := cmd.Flags().GetInt("n"); err != nil || got != -10 {
		t.Errorf("%d, %v", got, err)
	}
}
