package calibrate

import (
	"math"
	"strings"
	"testing"

	"psrt/sched/pipe"
	"psrt/sched/plan"
	"psrt/sched/psmsg"
	"psrt/sched/train"
)

const described = `
hosts:
- {name: trainers, count: 2, cores: 4, workers: 1}
- {name: servers, count: 1, cores: 4, servers: 1}
model: {kind: deepfm, fields: 8, dim: 4, hidden: [16], rows: 1e5}
job: {batch: 1000, sync: ssp, staleness: 2, transport: shm}
`

// twice is what the job would say that takes twice the time, cores and rows that the
// description has predicted.
func twice(c *plan.Cluster) *train.Result {
	p := plan.Predict(c)
	const steps = 50
	r := &train.Result{Model: "deepfm", Sync: "ssp", Transport: "shm", Workers: 2, Servers: 1, Threads: 4, EvaluatedOn: "train", Examples: 49_500,
		TrainSeconds: 2 * steps * p.StepSeconds, Epochs: make([]train.Epoch, 1), Pipeline: pipe.Summary{Steps: steps}}
	for _, x := range p.Resources {
		if x.Unit == "cores" {
			r.Ranks = append(r.Ranks, train.RankUsage{CPUSeconds: 2 * steps * x.Busy * x.Have})
		}
	}
	rows := p.DistinctRows * 4 * c.Model.RowFloats()
	for range 2 {
		r.ServerUse = append(r.ServerUse, psmsg.StatsReply{Flows: []psmsg.FlowStats{
			{Table: train.EmbeddingTable, InBytes: uint64(2 * steps * p.PushBytes), OutBytes: uint64(2 * steps * rows)},
			{Table: psmsg.DenseFlow, OutBytes: uint64(2 * steps * (p.PullBytes - rows))}}})
	}
	return r
}

func TestAgainst(t *testing.T) {
	c, err := plan.Parse([]byte(described))
	if err != nil {
		t.Fatal(err)
	}
	all, err := Against(c, twice(c))
	if err != nil || len(all) != 6 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, x := range all {
		want := 2.
		if x.What == "examples" {
			want = .5 * 49_500 / 50_000 // the last step was shorter
		}
		if math.Abs(x.Ratio-want) > 1e-3 || math.Abs(x.Measured/x.Predicted/x.Ratio-1) > 1e-9 {
			t.Errorf("%+v, want a ratio of %v", x, want)
		}
	}
	scored := twice(c)
	scored.EvaluatedOn = "test"
	if all, err := Against(c, scored); err != nil || len(all) != 3 {
		t.Errorf("with rows that were pulled to be scored: %+v, %v", all, err)
	}
}

// A run of another job is refused by what is different.
func TestAgainstAnotherJob(t *testing.T) {
	c, err := plan.Parse([]byte(described))
	if err != nil {
		t.Fatal(err)
	}
	for says, spoil := range map[string]func(*train.Result){
		"trained nothing":     func(r *train.Result) { r.Pipeline.Steps = 0 },
		"in 0 s":              func(r *train.Result) { r.TrainSeconds = 0 },
		"model.kind deepfm":   func(r *train.Result) { r.Model = "fm" },
		"job.sync ssp":        func(r *train.Result) { r.Sync = "asp" },
		"job.transport shm":   func(r *train.Result) { r.Transport = "tcp" },
		"workers 2":           func(r *train.Result) { r.Workers = 3 },
		"servers 1":           func(r *train.Result) { r.Servers = 2 },
		"dense_ranks 0":       func(r *train.Result) { r.Heter = &train.HeterUse{DenseRanks: 1} },
		"threads: 4":          func(r *train.Result) { r.Threads = 2 },
		"1020 examples a":     func(r *train.Result) { r.Examples = 51_000 },
		"job.batch of 1000":   func(r *train.Result) { r.Examples = 25_000 },
		"990 examples a step": func(r *train.Result) { r.Epochs = nil },
		"from checkpoint 4":   func(r *train.Result) { r.Checkpoints = &train.Checkpoints{ResumedFrom: 4} },
	} {
		r := twice(c)
		spoil(r)
		if _, err := Against(c, r); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not in %v", says, err)
		}
	}
}
