// Command psrt trains models through parameter servers and works with what
// they leave behind. It only reads flags: what it does is in the packages of
// sched and tiers.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Set by the linker (see the Makefile).
var (
	version = "dev"
	commit  = "unknown"
)

// Exit codes of contract: bad usage or input, and a failure while running.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	root := newRoot()
	root.SetArgs(joinJSON(os.Args[1:]))
	err := root.Execute()
	if err == nil {
		return
	}
	var done *reported
	if !errors.As(err, &done) {
		fmt.Fprintf(os.Stderr, "psrt: %s\n", oneLine(err.Error()))
	}
	os.Exit(exitCode(err))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "psrt",
		Short:         "A parameter-server runtime for recommendation and click-through models",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(newTrain(), newEval(), newPredict(), newGen(), newVersion(), newMan())
	root.SetFlagErrorFunc(flagError)
	for _, c := range root.Commands() {
		if c.Args == nil {
			c.Args = noArgs
		}
	}
	root.SuggestionsMinimumDistance = 2
	return root
}

// usageError is the user's fault: exit code 2.
type usageError struct{ error }

func (u usageError) Unwrap() error  { return u.error }
func (u usageError) BadInput() bool { return true }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// reported marks errors that were already shown.
type reported struct{ error }

func (r *reported) Unwrap() error { return r.error }

func exitCode(err error) int {
	var bad interface{ BadInput() bool }
	if errors.As(err, &bad) && bad.BadInput() || strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage
	}
	return exitFailed
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument %q: files are given with flags, see psrt %s --help", c.Name(), args[0], c.Name())
	}
	return nil
}

// oneLine keeps an error on one line, except for the log lines that a dead
// rank's error carries on purpose.
func oneLine(s string) string {
	head, tail, found := strings.Cut(s, "\n  ")
	head = strings.ReplaceAll(head, "\n", "; ")
	if found {
		return head + "\n  " + tail
	}
	return head
}

// joinJSON lets --json be followed by a file name: pflag wants an equals sign
// where a value is optional.
func joinJSON(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--json" && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			out = append(out, "--json="+args[i+1])
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}
