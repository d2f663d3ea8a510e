package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// meanings is what the flags that all suites take mean to those that do not have them
// themselves: "=NAME" is a flag of the suite's own that does the same, else it is why the
// suite has nothing for it to say.
func meanings() map[string]map[string]string {
	const (
		here     = "it measures within one process, and nothing is sent"
		rows     = "a batch has --keys rows of --dims floats"
		counted  = "what a round does is counted, not timed: give --rounds"
		batches  = "what a round does is counted, not timed: give --batches"
		pair     = "two processes write to each other: none is a server, and there are no more"
		overTCP  = "its processes talk over TCP, on a link with a --rate of its own"
		inOne    = "it measures within one process: there are none"
		oneEach  = "one server and one worker are measured"
		fixedOne = "there is one server, which is what is measured"
	)
	return map[string]map[string]string{
		"lat":       {"servers": pair, "workers": pair},
		"bw":        {"servers": pair, "workers": pair},
		"pull":      {"sizes": rows, "iters": "=batches", "duration": batches, "servers": fixedOne, "workers": "one worker pulls; psbench fanin has several"},
		"push":      {"sizes": rows + ", a vector --vector bytes", "iters": "=batches", "duration": batches, "servers": fixedOne},
		"fanin":     {"sizes": "=bytes", "iters": "a point is measured for a --duration", "servers": fixedOne},
		"allreduce": {"duration": "calls are counted, not timed: give --iters", "servers": "all ranks are alike, and none serves: give --ranks", "workers": "=ranks"},
		"chain": {"transport": overTCP, "sizes": "=bytes", "iters": "a window of pushes lasts for a --duration", "servers": "the members of its chains are what is measured, and are given",
			"workers": "one worker pushes, --depth at a time"},
		"table": {"transport": here, "sizes": rows, "iters": "=batches", "duration": batches, "servers": inOne, "workers": "tables have threads, not workers: give --threads"},
		"ssd":   {"transport": here, "sizes": "a batch has --keys rows of --row-bytes", "iters": "=batches", "duration": batches, "servers": inOne, "workers": "a table has lanes, not workers: give --lanes"},
		"hbm":   {"transport": here, "sizes": "a batch has --rows rows of --dim floats", "iters": "=rounds", "duration": counted, "servers": inOne, "workers": "rows are on one device, or on --cards"},
		"layers": {"transport": here, "sizes": "layers have --hidden units and --fields times --dim inputs", "iters": "=rounds", "duration": counted,
			"servers": inOne, "workers": inOne},
		"ahead": {"transport": "server and worker are in one process", "sizes": "rows have --dim floats", "iters": "=epochs", "duration": "what an epoch does is counted, not timed: give --examples",
			"servers": oneEach, "workers": oneEach + ": give --threads"},
		"pipeline": {"transport": "lines run within one process, and over TCP with --rate", "sizes": "stages take a time, whatever the size: give --step", "iters": "=steps", "duration": "steps are counted: give --steps, and --step for how long one takes",
			"servers": oneEach},
		"train": {"transport": overTCP, "sizes": "what is sent follows from the model: give --batch, --fields and --dim", "iters": "=steps", "duration": "steps are counted, not timed: give --steps",
			"servers": oneEach, "workers": oneEach + "; --combine has several workers"},
		"recover": {"transport": here, "sizes": "a table has --rows rows of --dim floats", "iters": "=rounds", "duration": counted, "servers": inOne, "workers": "tables have lanes, not workers: give --lanes"},
		"codec":   {"transport": here, "sizes": "messages are as long as their --keys make them, and --volume bytes of each are moved", "iters": "=rounds", "duration": counted, "servers": inOne, "workers": inOne},
		"start": {"transport": "psrt train chooses it, as for its users", "sizes": "nothing is sent but what ranks need to find each other", "iters": "=rounds",
			"duration": "how long it takes is what is measured: give --rounds"},
		"qualify": {"servers": "all ranks are alike, and none serves: give --ranks"},
	}
}

// complete gives all suites the flags that every suite takes.
func complete(root *cobra.Command) {
	all := meanings()
	for _, c := range root.Commands() {
		for name, meaning := range all[c.Name()] {
			own, same := strings.CutPrefix(meaning, "=")
			if f := c.Flags().Lookup(own); same && f != nil {
				c.Flags().AddFlag(&pflag.Flag{Name: name, Usage: "the same as --" + own, Value: f.Value, DefValue: f.DefValue})
				continue
			}
			c.Flags().AddFlag(&pflag.Flag{Name: name, Value: without(meaning), Hidden: true})
		}
	}
}

// without is a flag that a suite has no meaning for, and why.
type without string

// Set refuses every value.
func (w without) Set(string) error {
	return errors.New("it has no meaning for this suite: " + string(w))
}

func (w without) String() string { return "" }
func (w without) Type() string   { return "none" }
