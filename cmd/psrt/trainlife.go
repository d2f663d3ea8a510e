package main

import (
	"fmt"
	"io"
	"os"

	"psrt/cmd/internal/cli"
	"psrt/sched/train"
	"psrt/tiers/table"
)

// readLifecycle reads the settings of --accessor into a job.
func (f *trainFlags) readLifecycle(j *train.Job) error {
	switch {
	case f.accessor == "" && f.serving == "":
		return nil
	case f.accessor == "":
		return cli.Usagef("--serving %s: what is served is for --accessor FILE to say; give one (an empty file has all defaults)", f.serving)
	}
	text, err := os.ReadFile(f.accessor)
	if err != nil {
		return cli.Usagef("--accessor: %w", err)
	}
	if j.Lifecycle, j.Schedule, err = table.ParseAccessor(text); err != nil {
		return cli.Usagef("--accessor %s: %w", f.accessor, err)
	}
	j.Serving = f.serving
	return nil
}

// lifeNote is all that holds for a job's features, once.
func lifeNote(j *train.Job) string {
	spec := table.Spec{Name: train.EmbeddingTable, Dim: j.Model.Dim, Optimizer: j.Optimizer, Lifecycle: j.Lifecycle}
	return "lifecycle: " + j.Schedule.String() + " " + spec.Effective()
}

// printLife is what became of the features, for people.
func printLife(w io.Writer, l *train.Life) {
	if l == nil {
		return
	}
	fmt.Fprintf(w, "%-12s %d days, %d shrinks: %d rows deleted, %d left, of which %d have a weight and %d a vector\n",
		"lifecycle", l.Days, l.Shrinks, l.Deleted, l.Rows, l.Admitted, l.Extended)
	if s := l.Serving; s != nil {
		fmt.Fprintf(w, "%-12s %d bases and %d deltas in %s, the last %.2f s behind its last row", "serving", s.Bases, s.Deltas, s.Location, s.LastLatencySeconds)
		if s.Failed > 0 {
			fmt.Fprintf(w, ", %d failed", s.Failed)
		}
		fmt.Fprintln(w)
	}
}
