package main

import (
	"fmt"
	"io"
	"strings"

	"psrt/rdma/mem"
	"psrt/sched/psmsg"
	"psrt/sched/train"
	"psrt/sched/train/metric"
)

// figures are a report's few numbers that fit on a line.
type figures struct{ r *metric.Report }

func figuresOf(r *metric.Report) *figures {
	if r == nil {
		return nil
	}
	return &figures{r}
}

func (f *figures) String() string {
	var parts []string
	add := func(name string, v *float64) {
		if v != nil {
			parts = append(parts, fmt.Sprintf("%s %.4f", name, *v))
		}
	}
	if f.r.OneClass() {
		parts = append(parts, "auc -")
	}
	add("auc", f.r.AUC)
	add("logloss", f.r.LogLoss)
	if f.r.LogLoss == nil {
		add("rmse", f.r.RMSE)
		add("mae", f.r.MAE)
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, " ")
}

// printResult is the end of `psrt train` for people.
func printResult(w io.Writer, r *train.Result) {
	of := fmt.Sprintf("epoch %d of %d", r.BestEpoch, len(r.Epochs))
	if r.BestEpoch == 0 {
		of = "the model before the first epoch"
	}
	fmt.Fprintf(w, "\n%s data, %d rows, %s\n", r.EvaluatedOn, r.Evaluated, of)
	row := func(name string, v *float64, more string) {
		if v != nil {
			fmt.Fprintf(w, "%-12s %.4f%s\n", name, *v, more)
		}
	}
	bound := ""
	if r.AUCErrorBound != nil && *r.AUCErrorBound > 0 {
		bound = fmt.Sprintf("  (± %.1g)", *r.AUCErrorBound)
	}
	row("AUC", r.AUC, bound)
	if r.AUC == nil && r.LogLoss != nil {
		fmt.Fprintf(w, "%-12s %s\n", "AUC", noAUC)
	}
	row("logloss", r.LogLoss, "")
	if r.LogLoss == nil {
		row("RMSE", r.RMSE, "")
		row("MAE", r.MAE, "")
	}
	row("COPC", r.COPC, "")
	fmt.Fprintf(w, "%-12s %s examples/s, %d examples in %.1f s of training, %.1f s in all\n", "speed", si(r.ExamplesPerS), r.Examples, r.TrainSeconds, r.WallSeconds)
	fmt.Fprintf(w, "%-12s io %.0f %%, comm %.0f %%, compute %.0f %%\n", "time", 100*r.Stages.IO, 100*r.Stages.Comm, 100*r.Stages.Compute)
	if s := r.StalenessSeen; len(s) > 1 {
		fmt.Fprintf(w, "%-12s %.2f steps on average, at most %d\n", "staleness", s.Mean(), len(s)-1)
	}
	fmt.Fprintf(w, "%-12s %d features, peak %d MB in one process\n", "memory", r.Features, r.PeakRSSBytes/1e6)
	if r.Storage != nil {
		fmt.Fprintf(w, "%-12s %s\n", "disks", r.Storage)
	}
	if c := r.Checkpoints; c != nil && c.Failed > 0 {
		fmt.Fprintf(w, "%-12s %d written, %d failed in %s\n", "checkpoints", c.Written, c.Failed, c.Location)
	}
	printLife(w, r.Life)
	for _, s := range r.ServerUse {
		if slowPages(s) {
			fmt.Fprintf(w, "%-12s server %d: %s\n", "", s.Server, s.Memory)
		}
	}
	if len(r.Transfers) > 0 {
		fmt.Fprintf(w, "%-12s %s\n", "transport", r.Transfers[0])
	}
	fmt.Fprintf(w, "%-12s %s\n", "digest", r.Digest)
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "%-12s %s\n", "warning", warning)
	}
}

// largeTables is where pages of 4 KiB begin to cost: well above what the
// processor's second translation cache covers with them.
const largeTables = 64 << 20

// slowPages says whether what the server tells of its memory is worth a line:
// --json has it in any case.
func slowPages(s psmsg.StatsReply) bool {
	return s.TableBytes >= largeTables && strings.Contains(s.Memory, mem.SmallPages.String())
}

// noAUC stands where an AUC would.
const noAUC = "-  (all labels are the same)"

// printReport is `psrt eval` for people.
func printReport(w io.Writer, r *metric.Report) {
	fmt.Fprintf(w, "%-12s %d\n", "rows", r.Counted())
	if r.OneClass() {
		fmt.Fprintf(w, "%-12s %s\n", "AUC", noAUC)
	}
	for _, row := range []struct {
		name  string
		value *float64
	}{{"AUC", r.AUC}, {"logloss", r.LogLoss}, {"RMSE", r.RMSE}, {"MAE", r.MAE}, {"COPC", r.COPC}} {
		if row.value != nil {
			fmt.Fprintf(w, "%-12s %.4f\n", row.name, *row.value)
		}
	}
}
