package calibrate

import (
	"fmt"
	"strings"

	"psrt/sched/plan"
	"psrt/sched/psmsg"
	"psrt/sched/train"
)

// Compared is one quantity, as it was predicted and as a run had it.
type Compared struct {
	What      string  `json:"what"`
	Unit      string  `json:"unit"`
	Predicted float64 `json:"predicted"`
	Measured  float64 `json:"measured"`
	Ratio     float64 `json:"ratio"` // measured over predicted
}

func compare(what, unit string, predicted, measured float64) Compared {
	c := Compared{What: what, Unit: unit, Predicted: predicted, Measured: measured}
	if predicted > 0 {
		c.Ratio = measured / predicted
	}
	return c
}

// Against holds the prediction for a description against a run of the same job, which
// psrt train --json has written.
func Against(c *plan.Cluster, run *train.Result) ([]Compared, error) {
	workers, servers, dense := ranksOf(c)
	steps := float64(run.Pipeline.Steps)
	if steps < 1 || !(run.TrainSeconds > 0) {
		return nil, fmt.Errorf("calibrate: a run of %d steps in %g s: it has trained nothing; give the JSON of psrt train", run.Pipeline.Steps, run.TrainSeconds)
	}
	if run.Checkpoints != nil && run.Checkpoints.ResumedFrom > 0 {
		return nil, fmt.Errorf("calibrate: the run went on from checkpoint %d: its examples are all, its steps those since then; give the JSON of one that began anew", run.Checkpoints.ResumedFrom)
	}
	batch := float64(run.Examples) / steps
	ranks := 0 // the run's dense ones
	if run.Heter != nil {
		ranks = run.Heter.DenseRanks
	}
	for _, v := range []struct {
		key      string
		is, runs any
	}{{"model.kind", c.Model.Kind, run.Model}, {"job.sync", c.Job.Sync, strings.ToLower(run.Sync)}, {"job.transport", c.Job.Transport, run.Transport},
		{"workers", workers, run.Workers}, {"servers", servers, run.Servers}, {"dense_ranks", dense, ranks}} {
		if v.is != v.runs {
			return nil, fmt.Errorf("calibrate: the run has %v where the description has %s %v: describe the job that ran", v.runs, v.key, v.is)
		}
	}
	for _, h := range c.Hosts {
		if h.Workers > 0 && run.Threads > 0 && h.Threads != run.Threads {
			return nil, fmt.Errorf("calibrate: the run's workers had %d threads where the description has threads: %d at %s: describe the job that ran", run.Threads, h.Threads, h.Name)
		}
	}
	// The last step of a pass is shorter.
	if b := float64(c.Job.Batch); batch > b || batch < b*(1-float64(len(run.Epochs))/steps) {
		return nil, fmt.Errorf("calibrate: the run has %.0f examples a step in the mean, the description a job.batch of %d: describe the job that ran", batch, c.Job.Batch)
	}
	p := plan.Predict(c)
	step := run.TrainSeconds / steps
	all := []Compared{compare("step", "s", p.StepSeconds, step), compare("examples", "1/s", p.ExamplesPerS, float64(run.Examples)/run.TrainSeconds)}
	cores, spent := 0.0, 0.0
	for _, r := range p.Resources {
		if r.Unit == "cores" {
			cores += r.Busy * r.Have
		}
	}
	for _, r := range run.Ranks {
		spent += r.CPUSeconds
	}
	all = append(all, compare("core-seconds of a step", "s", cores, spent/steps))
	if run.EvaluatedOn != "train" {
		return all, nil // what was scored has pulled rows, too
	}
	in, out, rows := 0.0, 0.0, 0.0
	for _, s := range run.ServerUse {
		for _, f := range s.Flows {
			in, out = in+float64(f.InBytes), out+float64(f.OutBytes)
			if f.Table != psmsg.DenseFlow && f.Table != psmsg.OtherFlow {
				rows += float64(f.OutBytes) / (4 * c.Model.RowFloats())
			}
		}
	}
	each := steps * float64(workers)
	return append(all, compare("distinct rows of a worker's step", "", p.DistinctRows, rows/each),
		compare("pulled by a worker's step", "B", p.PullBytes, out/each), compare("pushed by a worker's step", "B", p.PushBytes, in/each)), nil
}

// ranksOf counts what all hosts have.
func ranksOf(c *plan.Cluster) (workers, servers, dense int) {
	for _, h := range c.Hosts {
		workers, servers, dense = workers+h.Count*h.Workers, servers+h.Count*h.Servers, dense+h.Count*h.DenseRanks
	}
	return workers, servers, dense
}
