package clitest

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

func tree() *cobra.Command {
	root := &cobra.Command{Use: "prog"}
	train := &cobra.Command{Use: "train"}
	train.Flags().Int("rows", 0, "")
	server := &cobra.Command{Use: "server"}
	add := &cobra.Command{Use: "add"}
	add.Flags().Bool("now", false, "")
	server.AddCommand(add)
	root.AddCommand(train, server)
	return root
}

func TestLines(t *testing.T) {
	page := "Say `prog train\n--rows 3` or:\n\n    mpirun -n 2 prog train \\\n       --rows 4 | sort\n\n```sh\nprog server add --now   # soon\na; prog train > out\n```\n"
	want := []string{"prog server add --now", "soon", "a", "prog train", "out", "mpirun -n 2 prog train --rows 4", "sort", "prog train --rows 3"}
	if got := Lines(page); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCheck(t *testing.T) {
	for line, good := range map[string]bool{
		"prog train --rows 3": true, "x=1 ./bin/prog train --rows=3 [--rows 4]": true, "prog": true, "prog server add --now": true, "prog train … --help": true,
		"prog tran --rows 3": false, "prog train --row 3": false, "prog server --now": false, "prog server add --rows 3": false,
	} {
		args, is := argsOf(line, "prog")
		if err := check(tree(), args); !is || (err == nil) != good {
			t.Errorf("%q: %v", line, err)
		}
	}
}
